#!/usr/bin/env bash
# Runs every fuzz target for a time each, one after the other, and keeps what it
# finds: inputs that fail go where go test puts them, testdata/fuzz of their
# package; inputs that reach new code stay in the build cache, and with -grow up
# to N of each target, the smallest first, are copied into the committed corpus.
#
#	scripts/fuzz.sh [-t 20m] [-grow N] [package …]
set -euo pipefail
cd "$(dirname "$0")/.."

time=20m grow=0
while (($#)); do
	case $1 in
	-t) time=$2; shift 2 ;;
	-grow) grow=$2; shift 2 ;;
	*) break ;;
	esac
done

cache=$(go env GOCACHE)/fuzz
status=0
for package in $(go list "${@:-./...}"); do
	dir=$(go list -f '{{.Dir}}' "$package")
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		printf '== %s %s\n' "$package" "$target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 100x "$package" || status=1
		((grow)) && [[ -d $cache/$package/$target ]] || continue
		mkdir -p "$dir/testdata/fuzz/$target"
		find "$cache/$package/$target" -type f -size -2k -printf '%s %p\n' | sort -n | awk -v n="$grow" 'NR <= n { print $2 }' |
			xargs -r -I{} cp -n {} "$dir/testdata/fuzz/$target/"
	done
done
exit $status
