# Bash, for the host: the parts of cases. A case is a function of tools/testbed/cases/: it sets the
# queue, begins, runs its traffic and finishes; its results are in $out/CASE.
#
#	sender 10.1.0.1 fd00:1::1 ── eth0 [switch] eth1 ── receiver 10.2.0.1 fd00:2::1
#	sender2 10.3.0.1 fd00:3::1 ── eth2 ┘
#
# sender2 boots when a case asks for it: senders are the senders of the case.
#
# shellcheck shell=bash disable=SC2016 # machines expand the text in single quotes
: "${work:?}" "${out:?}"

senders=(sender)
declare -A networks=([sender]=1 [sender2]=3) ports=([sender]=eth0 [sender2]=eth2)

boot_three() {
	start switch 254 512 listen:a:1 listen:b:2 listen:c:3
	start sender 1 320 connect:a:1
	start receiver 1 320 connect:b:2
	booted
	# Both ends assign the same queue pair numbers: some numbers of the receiver are used up first,
	# so that a confused pair does not look right.
	on receiver 'ib_write_bw -d rxe0 -x $(gid 4) -F -q 9 -n 5 -s 64 >/dev/null 2>&1 &
		within 60 listens 18515 && ib_write_bw -d rxe0 -x $(gid 4) -F -q 9 -n 5 -s 64 10.2.0.1 >/dev/null 2>&1; wait $!'
}

# with_two_senders runs a command with sender2, and boots it if it is not running.
with_two_senders() {
	local senders=(sender sender2)
	if [[ ! ${pids[sender2]-} ]]; then
		start sender2 1 320 connect:c:3
		booted
	fi
	"$@"
}

# queue RATE QDISC… gives RoCEv2 towards the receiver a queue of that rate and kind; all other
# packets have a class of their own, so that the queue counts only RoCEv2. Without arguments there
# is no queue.
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

# begin NAME starts the captures on both sides and saves the counters.
begin() {
	local machine devices=()
	name=$1
	echo "testbed: $name (after $SECONDS s)" >&2
	mkdir -p "$out/$name"
	rm -f "$out/$name/before.pcap" # written by the judge in a previous run
	for machine in "${senders[@]}"; do devices+=("${ports[$machine]}"); done
	on switch "capture 'udp port 4791 or ip6 proto 60' ${devices[*]} eth1" # 60: options, as Fast CNPs have them
	for machine in "${senders[@]}" receiver; do
		on "$machine" 'dmesg -c >/dev/null; counters >/share/counters.before'
	done
}

# told KIND requires that each sender got notifications of that kind.
told() {
	local machine
	for machine in "${senders[@]}"; do echo "fd00:${networks[$machine]}::1 $1"; done >"$out/$name/told"
}

# transfer SERVER CLIENT LISTENS [FAMILY] runs a program at both ends, for several senders at the
# same time, each with a server of its own. In the arguments GID stands for the index of the address
# of that family, 6 if not given, and PORT for a port that no other sender has. PATIENCE is the
# timeout of the clients in seconds.
transfer() {
	local machine server client listens port=18515 gid="\$(gid ${4:-6})" status worst=0
	printf 'server: %s\nclient: %s\n' "$1" "$2" >"$out/$name/commands.txt"
	for machine in "${senders[@]}"; do
		server=${1//GID/$gid} client=${2//GID/$gid}
		server=${server//PORT/$port} client=${client//PORT/$port} listens=${3//PORT/$port}
		on receiver "setsid timeout ${PATIENCE:-300} $server >/share/$machine.server.txt 2>&1 &
			echo \$! >/run/server.$machine; within 60 listens $listens"
		rm -f "$work/$machine"/{go,client.status}
		on "$machine" "{
			within 60 test -e /share/go
			timeout $((${PATIENCE:-300} - 20)) $client >/share/client.txt 2>&1
			echo \$? >/share/client.status
		} &"
		((++port))
	done
	for machine in "${senders[@]}"; do touch "$work/$machine/go"; done
	for machine in "${senders[@]}"; do
		status=124
		if await "${PATIENCE:-300}" "the client of $machine to end" test -s "$work/$machine/client.status"; then
			status=$(cat "$work/$machine/client.status")
		fi
		((status == 0)) || worst=$status
		on receiver "pid=\$(cat /run/server.$machine)
			within 30 eval '! kill -0 \$pid' || kill -KILL -- -\$pid; true" >"$out/$name/$machine.server.late" 2>&1
	done
	echo "$worst" >"$out/$name/client.status"
}

# perftest TOOL OPTION… runs one of perftest's programs over IPv6; the queue pairs are exchanged
# over TCP and IPv4, and these packets are not part of the case.
perftest() {
	local tool=$1
	shift
	transfer "$tool -d rxe0 -x GID -m 1024 -F -p PORT $*" "$tool -d rxe0 -x GID -m 1024 -F -p PORT $* 10.2.0.1" PORT
}

# finish ends the captures and puts all results of the case into its folder. With several senders
# each has its own capture before the queue.
finish() {
	local machine
	on switch 'capture_end; { tc -s qdisc show dev eth1; ip -all netns exec tc -s qdisc show; } >/share/queue.txt' >"$out/$name/capture.txt"
	for machine in "${senders[@]}"; do mv "$work/switch/${ports[$machine]}.pcap" "$out/$name/before.$machine.pcap"; done
	((${#senders[@]} > 1)) || mv "$out/$name/before.$machine.pcap" "$out/$name/before.pcap"
	mv "$work/switch/eth1.pcap" "$out/$name/behind.pcap"
	mv "$work/switch/queue.txt" "$out/$name/"
	for machine in "${senders[@]}" receiver; do
		on "$machine" 'counters >/share/counters.after; dmesg' >"$out/$name/$machine.dmesg"
		mv "$work/$machine"/counters.before "$out/$name/$machine.before"
		mv "$work/$machine"/counters.after "$out/$name/$machine.after"
		mv "$work/$machine/client.txt" "$out/$name/$machine.client.txt" 2>/dev/null || true
	done
	mv "$work"/receiver/*.server.txt "$out/$name/" 2>/dev/null || true
}
