# Bash. A WAN: the switch is the ingress PE. The sender is connected to it, and a tunnel that begins
# at w0 and ends in the namespace egress, the other PE. Between the PEs is the namespace core, a
# router that knows only the addresses of both PEs, and has the queue. Packets that leave the tunnel
# come back to the switch, and go to the receiver.
#
#	eth0 [ingress fd00:fe::1] w0 ── w1 [core fd00:ff::5] c0 ── c1 [egress fd00:ee::2] e0 ── e1 [switch] eth1
#
# shellcheck shell=bash disable=SC2016,SC2154 # machines expand the text in single quotes

# wan_up KIND [DELAY] makes the WAN: KIND of tunnel is ip6ip6, plain IPv6 in IPv6, or srv6. Each
# direction between core and egress takes DELAY.
wan_up() {
	on switch 'set -e
		modprobe -a veth ip6_tunnel
		sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.seg6_flowlabel=1
		for ns in core egress; do
			ip netns add $ns
			ip netns exec $ns sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.accept_dad=0 net.ipv6.seg6_flowlabel=1
		done
		# cable A B: A is DEVICE, ADDRESS and the options of ip for its namespace.
		cable() {
			local a=$1 b=$3 mac_a mac_b
			ip link add "$a" type veth peer name "$b"
			mac_a=$(cat "/sys/class/net/$a/address") mac_b=$(cat "/sys/class/net/$b/address")
			end "$a" "$2" "$4" "$mac_b" "$5"
			end "$b" "$4" "$2" "$mac_a" "$6"
		}
		# end DEVICE ADDRESS PEER MAC NAMESPACE
		end() {
			[[ ! $5 ]] || ip link set "$1" netns "$5"
			ip ${5:+-n $5} link set "$1" up
			ip ${5:+-n $5} address add "$2/64" dev "$1" nodad
			ip ${5:+-n $5} neighbour add "$3" lladdr "$4" dev "$1"
		}
		cable w0 fd00:fe::1 w1 fd00:fe::5 "" core
		cable c0 fd00:ee::5 c1 fd00:ee::2 core egress
		cable e0 fd00:ef::2 e1 fd00:ef::1 egress ""
		ip -n core address add fd00:ff::5/128 dev lo
		ip -n core link set lo up; ip -n egress link set lo up
		ip -6 route add fd00:ee::/64 via fd00:fe::5 dev w0
		ip -6 route add fd00:ff::/64 via fd00:fe::5 dev w0
		ip -n egress -6 route add fd00:fe::/64 via fd00:ee::5 dev c1
		# Packets from a host go through the tunnel, and packets out of the tunnel go to a host.
		ip -6 rule add iif eth0 table 101
		ip -6 rule add iif e1 table 102
		ip -6 rule add iif eth1 table 103
		ip -6 route add fd00:2::/64 dev eth1 table 102
		ip -6 route add fd00:1::/64 via fd00:ef::2 dev e1 table 103
		ip -n egress -6 route add fd00:2::/64 via fd00:ef::1 dev e0'
	"wan_$1"
	if [[ ${2-} ]]; then
		on switch "ip netns exec egress tc qdisc add dev e0 root netem delay $2 limit 10000 &&
			ip netns exec egress tc qdisc add dev c1 root netem delay $2 limit 10000"
	fi
}

# wan_ip6ip6: a tunnel takes its label from a hash of the packet that was computed before, here by
# the steering of packets to processors.
wan_ip6ip6() {
	on switch 'set -e
		echo 1 >/sys/class/net/eth0/queues/rx-0/rps_cpus
		ip -6 tunnel add t0 mode ip6ip6 local fd00:fe::1 remote fd00:ee::2 dev w0 encaplimit none hoplimit 64
		ip -n egress -6 tunnel add t1 mode ip6ip6 local fd00:ee::2 remote fd00:fe::1 dev c1 encaplimit none hoplimit 64
		ip link set t0 up; ip -n egress link set t1 up
		ip -6 route add fd00:2::/64 dev t0 table 101
		ip -n egress -6 route add fd00:1::/64 dev t1'
}

wan_srv6() {
	on switch 'set -e
		sysctl -qw net.ipv6.conf.all.seg6_enabled=1 net.ipv6.conf.w0.seg6_enabled=1
		ip netns exec egress sysctl -qw net.ipv6.conf.all.seg6_enabled=1 net.ipv6.conf.c1.seg6_enabled=1
		ip sr tunsrc set fd00:fe::1; ip -n egress sr tunsrc set fd00:ee::2
		ip -n egress -6 route add fd00:ee::9/128 encap seg6local action End.DT6 table main dev c1
		ip -n core -6 route add fd00:ee::9/128 via fd00:ee::2 dev c0
		ip -6 route add fd00:2::/64 encap seg6 mode encap segs fd00:ee::9 via fd00:fe::5 dev w0 table 101
		ip -6 route add fd00:ee::9/128 via fd00:fe::5 dev w0 table 101 # the PE looks its own packets up again
		ip -n egress -6 route add fd00:1::/64 encap seg6 mode encap segs fd00:fe::1 via fd00:ee::5 dev c1'
}

# wan_queue RATE QDISC… is the queue of the core. No other traffic goes through the core.
wan_queue() {
	local rate=$1
	shift
	on switch "tc qdisc delete dev eth1 root 2>/dev/null
		ip netns exec core tc qdisc delete dev c0 root 2>/dev/null
		ip netns exec core tc qdisc add dev c0 root handle 1: htb default 1 &&
		ip netns exec core tc class add dev c0 parent 1: classid 1:1 htb rate $rate burst 3k &&
		ip netns exec core tc qdisc add dev c0 parent 1:1 handle 10: $*"
}

wan_down() {
	on switch 'echo 0 >/sys/class/net/eth0/queues/rx-0/rps_cpus
		for rule in "iif eth0 table 101" "iif e1 table 102" "iif eth1 table 103"; do ip -6 rule delete $rule; done
		for table in 101 102 103; do ip -6 route flush table $table; done
		ip link delete w0; ip link delete e1; ip link delete t0 2>/dev/null
		ip netns delete core; ip netns delete egress'
}

# case_wan_ip6ip6 and case_wan_srv6: the loop through a WAN with the egress PE 10 ms away.
case_wan_ip6ip6() { wan_told ip6ip6; }
case_wan_srv6() { wan_told srv6; }

# wan_told KIND: the core sends the label of the flow to the ingress PE, by FCN, and the PE notifies
# the sender by CNP.
wan_told() {
	wan_up "$1" 10ms
	wan_case "wan-$1" loop_fcn
	wan_down
}

# wan_case NAME AGENTS runs a load into the queue of the core, beside the agents that AGENTS starts,
# and requires a CNP at the sender.
wan_case() {
	name=$1
	mkdir -p "$out/$name"
	wan_queue 4mbit bfifo limit 40000
	"$2"
	begin "$name"
	told cnp
	perftest ib_write_bw -u 18 -s 4096 -n 120 -q 4 -t 4 -Q 1 --tclass=2
	finish
	agents_end
}

loop_fcn() {
	core_role fcn ::/0 "$interval" 'pe = ["fd00:fe::1/128"]'
	agent switch "$http
[source.wan]
type = \"packet\"
interfaces = [\"w0\"]
snap = 256
[source.access]
type = \"packet\"
interfaces = [\"eth0\"]
filter = \"rocev2\"
[source.messages]
type = \"udp\"
listen = [\"[fd00:fe::1]:1021\"]
[sink.net]
type = \"raw\"
[role.ingress]
enabled = true
sources = [\"messages\"]
observe = [\"wan\", \"access\"]
sink = \"net\"
labels = \"learn\"
tunnel = { src = \"fd00:fe::1\" }
cnp_from = [\"fd00:1::fe\"]
accept = [\"fd00:ff::/64\"]
per_flow = \"1ms\""
	sender_role
}

# core_role METHOD SENDERS INTERVAL KEY: the core notifies for the flows of SENDERS, each at most
# once in INTERVAL; KEY gives the receiver of the notifications.
core_role() {
	agent switch "$http
[source.queues]
type = \"qdisc\"
interfaces = [\"c0\"]
levels = [$level]
tunnels = true
[sink.net]
type = \"raw\"
[role.switch]
enabled = true
sources = [\"queues\"]
sink = \"net\"
self = [\"fd00:ff::5\"]
methods = [{ senders = \"$2\", method = \"$1\" }]
$4
per_flow = \"$3\"
marking = \"elsewhere\"" core
}
