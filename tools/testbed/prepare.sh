# Bash, for the host: code shared by run.sh and conform.sh. It checks the packages, which needs
# has as PROGRAM:PACKAGE, makes the image in the folder $work, which is removed at the end, and the
# folder $out in it, unless it is set.
# shellcheck shell=bash
needs=(qemu-system-x86_64:qemu-system-x86 modprobe:kmod depmod:kmod apt-get:apt dpkg-deb:dpkg go:golang "${needs[@]-}")
missing=()
for need in "${needs[@]}"; do
	[[ ! $need ]] || PATH=$PATH:/usr/sbin:/sbin command -v "${need%:*}" >/dev/null || missing+=("${need#*:}")
done
if ((${#missing[@]})); then
	echo "testbed: needs these packages: ${missing[*]}" >&2
	exit 2
fi
PATH=$PATH:/usr/sbin:/sbin

work=$(mktemp -d --tmpdir rocecn-testbed.XXXXXX)
[[ ${out-} ]] || out=$work/out
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
