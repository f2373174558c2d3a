#!/usr/bin/env bash
# Sends RoCEv2 of Linux through a queue, in emulated machines, and judges the output of rocecn for
# it; README.md has the rest.
#
#	tools/testbed/run.sh [-o FOLDER] [CASE…]
#
# Without -o captures are removed at the end. tools/testbed/run.sh -l lists the names of the cases;
# all stands for all of them; the default is write-marks, write-drops and loop.
set -euo pipefail
cd "$(dirname "$0")/../.."
export TZ=UTC LC_ALL=C

mapfile -t cases < <(sed -n 's/^case_\([a-z0-9_]*\)().*/\1/p' tools/testbed/cases/*.sh | tr _ - | sort)

out=
while getopts o:lh option; do
	case $option in
	o) out=$OPTARG ;;
	l) printf '%s\n' "${cases[@]}" && exit ;;
	*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 2 ;;
	esac
done
shift $((OPTIND - 1))
(($#)) || set -- write-marks write-drops loop
[[ $* == all ]] && set -- "${cases[@]}"
for case; do
	[[ " ${cases[*]} " == *" $case "* ]] || { echo "testbed: there is no case $case: tools/testbed/run.sh -l" >&2; exit 2; }
done

# shellcheck source=tools/testbed/prepare.sh
. tools/testbed/prepare.sh
# shellcheck source=tools/testbed/case.sh
. tools/testbed/case.sh
# shellcheck source=tools/testbed/agents.sh
. tools/testbed/agents.sh
boot_three
echo "testbed: three machines have booted (after $SECONDS s)" >&2
for f in tools/testbed/cases/*.sh; do
	# shellcheck source=tools/testbed/cases/write.sh
	. "$f"
done
go -C tools build -o "$work/judge" ./testbed/judge
for case; do
	"case_${case//-/_}"
done
"$work/judge" -rocecn "$work/rocecn" "$out"
echo "testbed: done after $SECONDS s" >&2
