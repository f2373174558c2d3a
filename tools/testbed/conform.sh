#!/usr/bin/env bash
# Runs rocecn conform against devices that are not part of this project, in emulated machines: Linux
# as a switch that only marks, and soft-RoCE as receiver. docs/conform.md has the results; README.md
# the requirements, and tshark.
#
#	tools/testbed/conform.sh [-o FOLDER] [DEVICE…]
#
# The devices are red, codel and receiver; all of them by default. Profiles, reports and captures are
# in FOLDER; without -o they are removed at the end. The exit status is 1 if a case that is known to
# pass or to fail has another verdict, or if tshark finds a malformed packet of the tester.
#
#	eth0 [switch] eth1
#	  │           │
#	 [   tester   ] eth2 ── receiver fd00:4::2
#
# shellcheck disable=SC2016,SC2317 # machines expand the text in single quotes; functions are called by their names
set -euo pipefail
shopt -s lastpipe # the last function of a pipe is not a subshell, which could not count scripts
cd "$(dirname "$0")/../.."
export TZ=UTC LC_ALL=C

devices=(red codel receiver)
out=
while getopts o:h option; do
	case $option in
	o) out=$OPTARG ;;
	*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 2 ;;
	esac
done
shift $((OPTIND - 1))
(($#)) || set -- "${devices[@]}"
for device; do
	[[ " ${devices[*]} " == *" $device "* ]] || { echo "conform: there is no device $device: ${devices[*]}" >&2; exit 2; }
done
needs=(tshark:tshark)
# shellcheck source=tools/testbed/prepare.sh
. tools/testbed/prepare.sh

start tester 0 512 listen:a:1 listen:b:2 listen:c:4
if [[ $* == *red* || $* == *codel* ]]; then start switch 254 320 connect:a:1 connect:b:2; fi
if [[ $* == *receiver* ]]; then start receiver 2 320 connect:c:4; fi
booted
echo "conform: the machines have booted (after $SECONDS s)" >&2

status=0

# conform DEVICE CASE=VERDICT… runs the cases with the profile of standard input, and requires these
# verdicts.
conform() {
	local device=$1 expectation line case
	shift
	mkdir -p "$out/$device"
	rm -rf "$out/$device/captures" "$out/$device/malformed.txt" # of an earlier run
	cat >"$out/$device/profile.toml"
	cp "$out/$device/profile.toml" "$work/tester/$device.toml"
	echo "conform: $device (after $SECONDS s)" >&2
	PATIENCE=900 on tester "mkdir /tmp/captures
		rocecn conform -profile /share/$device.toml -yes -capture /tmp/captures -html /share/report.html \
			-json /share/report.json >/share/conform.log 2>&1
		echo \"status \$?\" >>/share/conform.log
		mv /tmp/captures /share/captures" # so that writing does not stop a bridge for long
	mv "$work"/tester/{report.html,report.json,captures,conform.log} "$out/$device/"
	cat "$out/$device/conform.log" >&2
	for expectation; do
		case=${expectation%=*}
		line=$(grep "\"case\":\"$case\"" "$out/$device/report.json") || true
		if [[ $line != *"\"verdict\":\"${expectation#*=}\""* ]]; then
			echo "conform: $device: want $expectation: $line" >&2
			status=1
		fi
	done
	malformed "$device"
}

# malformed requires that tshark finds no malformed packet of the tester in the captures of a device.
malformed() {
	local capture
	for capture in "$out/$1"/captures/*.pcapng; do
		tshark -n -r "$capture" -d udp.port==1021,data -d udp.port==1022,data -d udp.port==1121,data \
			-d udp.port==1122,data -Y 'frame.comment contains " sent" && _ws.malformed' 2>>"$work/tshark.log" |
			sed "s,^,conform: malformed in ${capture##*/}: ," >>"$out/$1/malformed.txt"
	done
	cat "$out/$1/malformed.txt" >&2
	[[ ! -s $out/$1/malformed.txt ]] || status=1
}

# profile NAME ROLE ADDRESSES SUPPORTS prints the beginning of a profile.
profile() {
	printf '[device]\nname = "%s"\nrole = "%s"\naddresses = [%s]\nsupports = [%s]\n[time]\ncase = "20s"\nsettle = "2s"\n' "$@"
}

# switch_device NAME QDISC… tests Linux as a switch with a queue at its port to the receivers.
switch_device() {
	local name=$1
	shift
	on switch "tc qdisc replace dev eth1 root handle 1: htb default 1 &&
		tc class replace dev eth1 parent 1: classid 1:1 htb rate 500kbit burst 3k &&
		tc qdisc replace dev eth1 parent 1:1 handle 10: $*"
	{
		profile "Linux $kernel with $*" switch '"fd00:1::fe", "fd00:2::fe"' '"ipv4", "ipv6", "mark"'
		cat <<-'END'
			[[port]]
			interface = "eth0"
			side = "sender"
			address = "fd00:1::a"
			[[port]]
			interface = "eth1"
			side = "receiver"
			address = "fd00:2::a"
			[hosts]
			sender = ["fd00:1::/64", "10.1.0.0/24"]
			receiver = ["fd00:2::/64", "10.2.0.0/24"]
			[congestion]
			by = "overload"
			rate = "2M"
			for = "3s"
		END
	} | conform "$name" F03.1=pass F14.3=pass F14.4=pass F14.5=pass F14.6=pass P03.1=pass
	on switch 'tc qdisc delete dev eth1 root'
}

device_red() { switch_device red 'red limit 60000 min 5000 max 20000 avpkt 1000 burst 10 bandwidth 500kbit probability 0.3 ecn'; }
device_codel() { switch_device codel 'codel target 5ms interval 50ms ecn limit 60'; }

# receiver_device NAME CASE=VERDICT… tests the receiver.
receiver_device() {
	local name=$1
	shift
	{
		profile "soft-RoCE of Linux $kernel: $name" receiver '"fd00:4::2", "10.4.0.2"' '"ipv4", "ipv6"'
		cat <<-'END'
			[device.limits]
			per_flow = "50ms"
			[[port]]
			interface = "eth2"
			side = "sender"
			address = "fd00:4::a"
			[hosts]
			sender = ["fd00:4::/64", "10.4.0.0/24"]
			[congestion]
			rate = "2M"
		END
	} | conform "$name" "$@"
}

device_receiver() { receiver_device receiver F09.1=inconclusive; }

on tester 'uname -r' >"$work/uname"
kernel=$(<"$work/uname")
for device; do
	"device_${device//-/_}"
done
echo "conform: done after $SECONDS s" >&2
exit "$status"
