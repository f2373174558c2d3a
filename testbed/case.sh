# Bash, for the host: what cases are made of. A case is a function of testbed/cases/: it
# sets the queue, begins, runs its traffic and finishes; what it leaves is in $out/CASE.
#
#	sender 10.1.0.1 fd00:1::1 ── eth0 [switch] eth1 ── receiver 10.2.0.1 fd00:2::1
#
# shellcheck shell=bash disable=SC2016 # machines expand what stands in single quotes
: "${work:?}" "${out:?}"

boot_three() {
	start switch 254 512 listen:a:1 listen:b:2
	start sender 1 320 connect:a:1
	start receiver 1 320 connect:b:2
	booted
	# Both ends give out the same queue pair numbers: of the receiver some are used up, so
	# that a pair which was mixed up does not look right.
	on receiver 'ib_write_bw -d rxe0 -x $(gid 4) -F -q 9 -n 5 -s 64 >/dev/null 2>&1 &
		within 60 listens 18515 && ib_write_bw -d rxe0 -x $(gid 4) -F -q 9 -n 5 -s 64 10.2.0.1 >/dev/null 2>&1; wait $!'
}

# queue RATE QDISC… gives RoCEv2 towards the receiver a queue of that rate and kind; all
# else has a class of its own, so that what the queue counts is RoCEv2. Without
# arguments there is no queue.
queue() {
	local rate=${1-}
	on switch 'tc qdisc delete dev eth1 root 2>/dev/null; tc qdisc delete dev eth0 root 2>/dev/null; true'
	[[ $rate ]] || return 0
	shift
	on switch "tc qdisc add dev eth1 root handle 1: htb default 2 &&
		tc class add dev eth1 parent 1: classid 1:1 htb rate $rate burst 3k &&
		tc class add dev eth1 parent 1: classid 1:2 htb rate 1gbit &&
		tc filter add dev eth1 parent 1: protocol ip prio 1 flower ip_proto udp dst_port 4791 classid 1:1 &&
		tc filter add dev eth1 parent 1: protocol ipv6 prio 2 flower ip_proto udp dst_port 4791 classid 1:1 &&
		tc qdisc add dev eth1 parent 1:1 handle 10: $*"
}

# begin NAME starts both captures; what is counted before, is.
begin() {
	name=$1
	echo "testbed: $name (after $SECONDS s)" >&2
	mkdir -p "$out/$name"
	on switch "capture 'udp port 4791 or ip6 proto 60' eth0 eth1" # 60: options, as Fast CNPs have them
	on sender 'dmesg -c >/dev/null; counters >/share/counters.before'
	on receiver 'dmesg -c >/dev/null; counters >/share/counters.before'
}

# transfer SERVER CLIENT LISTENS [FAMILY] runs a program at both ends. In the commands
# GID stands for the index of the address of that family, 6 if not given. PATIENCE is
# how many seconds the client has.
transfer() {
	local server=$1 client=$2 listens=$3 gid="\$(gid ${4:-6})" status=0
	printf 'server: %s\nclient: %s\n' "$server" "$client" >"$out/$name/commands.txt"
	on receiver "setsid timeout ${PATIENCE:-300} ${server//GID/$gid} >/share/server.txt 2>&1 &
		echo \$! >/run/server; within 60 listens $listens"
	on sender "timeout $((${PATIENCE:-300} - 20)) ${client//GID/$gid} >/share/client.txt 2>&1" || status=$?
	echo "$status" >"$out/$name/client.status"
	on receiver 'within 30 eval "! kill -0 $(cat /run/server)" || kill -KILL -- "-$(cat /run/server)"; true' \
		>"$out/$name/server.late" 2>&1
}

# perftest TOOL OPTION… runs one of perftest's programs over IPv6; the queue pairs are
# exchanged over TCP and IPv4, whose packets have no part in it.
perftest() {
	local tool=$1
	shift
	transfer "$tool -d rxe0 -x GID -m 1024 -F $*" "$tool -d rxe0 -x GID -m 1024 -F $* 10.2.0.1" 18515
}

# finish ends the captures and puts all that is known of the case into its folder.
finish() {
	local machine
	on switch 'capture_end; { tc -s qdisc show dev eth1; ip -all netns exec tc -s qdisc show; } >/share/queue.txt' >"$out/$name/capture.txt"
	mv "$work/switch/eth0.pcap" "$out/$name/before.pcap"
	mv "$work/switch/eth1.pcap" "$out/$name/behind.pcap"
	mv "$work/switch/queue.txt" "$out/$name/"
	for machine in sender receiver; do
		on "$machine" 'counters >/share/counters.after; dmesg' >"$out/$name/$machine.dmesg"
		mv "$work/$machine"/counters.before "$out/$name/$machine.before"
		mv "$work/$machine"/counters.after "$out/$name/$machine.after"
	done
	mv "$work/sender/client.txt" "$work/receiver/server.txt" "$out/$name/" 2>/dev/null || true
}
