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

missing=()
for need in qemu-system-x86_64:qemu-system-x86 modprobe:kmod depmod:kmod apt-get:apt dpkg-deb:dpkg go:golang; do
	PATH=$PATH:/usr/sbin:/sbin command -v "${need%:*}" >/dev/null || missing+=("${need#*:}")
done
if ((${#missing[@]})); then
	echo "testbed: needs these packages: ${missing[*]}" >&2
	exit 2
fi
PATH=$PATH:/usr/sbin:/sbin

work=$(mktemp -d --tmpdir rocecn-testbed.XXXXXX)
[[ $out ]] || out=$work/out
mkdir -p "$out"
cleanup() {
	trap '' INT TERM
	if declare -F stop >/dev/null; then stop || true; fi
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

SECONDS=0
tools/testbed/image.sh "$work"
# shellcheck source=tools/testbed/machines.sh
. tools/testbed/machines.sh
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
