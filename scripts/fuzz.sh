#!/usr/bin/env bash
# Runs every fuzz target for a time each, one after the other, and keeps what it
# finds: inputs that fail go where go test puts them, testdata/fuzz of their
# package; inputs that reach new code stay in the build cache, and with -grow up
# to N of each target, the smallest first, are copied into the committed corpus.
#
#	scripts/fuzz.sh [-t 20m] [-grow N] [package …]
#
# -t is a time or, as 20000x, a number of inputs.
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
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# fuzz runs one target, and tries a hundred times at most to make an input
# smaller: by default that takes most of the time. Up to Go 1.26 the end of the
# time can come out as a failure (golang/go#75804); one that found something says
# so.
fuzz() {
	go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 100x "$1" 2>&1 | tee "$log" && return
	grep -q '^ *context deadline exceeded$' "$log" && ! grep -qi 'failing input' "$log"
}

status=0
packages=$(go list "${@:-./...}")
for package in $packages; do
	dir=$(go list -f '{{.Dir}}' "$package")
	targets=$(go test -list '^Fuzz' "$package")
	for target in $(grep '^Fuzz' <<<"$targets" || true); do
		printf '== %s %s\n' "$package" "$target"
		fuzz "$package" "$target" || status=1
		((grow)) && [[ -d $cache/$package/$target ]] || continue
		mkdir -p "$dir/testdata/fuzz/$target"
		find "$cache/$package/$target" -type f -size -2k -printf '%s %p\n' | sort -n | awk -v n="$grow" 'NR <= n { print $2 }' |
			xargs -r -I{} cp -n {} "$dir/testdata/fuzz/$target/"
	done
done
exit $status
