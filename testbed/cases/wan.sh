# Bash. The loop across a WAN: the switch is the ingress PE and the egress PE of an SRv6
# tunnel through a namespace, core, that has the queue. The core tells the PE the label
# of the flow, by FCN, and the PE the sender, by CNP.
#
#	eth0 [PE fd00:fe::1] w0 ── w1 [core fd00:ff::5] c0, the queue ── c1 [PE fd00:ee::2] eth1
#
# shellcheck shell=bash disable=SC2016,SC2154 # machines expand what stands in single quotes

wan_up() {
	on switch 'modprobe veth; ip netns add core
		ip link add w0 type veth peer name w1 netns core
		ip link add c1 type veth peer name c0 netns core
		ip address add fd00:fe::1/64 dev w0 nodad
		ip address add fd00:ee::2/64 dev c1 nodad
		sysctl -qw net.ipv6.seg6_flowlabel=1 net.ipv6.conf.all.seg6_enabled=1 net.ipv6.conf.c1.seg6_enabled=1
		ip link set w0 up && ip link set c1 up
		core="ip -n core"
		ip netns exec core sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.conf.all.accept_dad=0
		$core link set lo up && $core address add fd00:ff::5/128 dev lo
		$core link set w1 up && $core address add fd00:fe::5/64 dev w1 nodad
		$core link set c0 up && $core address add fd00:ee::5/64 dev c0 nodad
		ip -6 route add fd00:ff::/64 via fd00:fe::5 dev w0
		neighbour() { $1 neighbour add "$2" dev "$3" lladdr "$($4 -br link show "$5" | tr -s " " | cut -d" " -f3)"; }
		neighbour ip fd00:fe::5 w0 "$core" w1; neighbour "$core" fd00:fe::1 w1 ip w0
		neighbour ip fd00:ee::5 c1 "$core" c0; neighbour "$core" fd00:ee::2 c0 ip c1
		$core -6 route add fd00:ee::9/128 via fd00:ee::2 dev c0
		ip sr tunsrc set fd00:fe::1
		ip -6 route add fd00:2::/64 dev eth1 table 100
		ip -6 rule add iif c1 table 101
		ip -6 route add fd00:ee::9/128 encap seg6local action End.DT6 table 100 dev c1 table 101
		ip -6 route add fd00:ee::9/128 via fd00:fe::5 dev w0 # the PE looks its own packets up again
		# Answers come back in a tunnel of the core, from which the PE learns queue pairs.
		ip -6 rule add iif eth1 table 102
		ip -6 route add fd00:1::/64 via fd00:ee::5 dev c1 table 102
		ip netns exec core ip sr tunsrc set fd00:ee::5
		$core -6 route add fd00:1::/64 encap seg6 mode encap segs fd00:fe::1 via fd00:fe::1 dev w1
		sysctl -qw net.ipv6.conf.w0.seg6_enabled=1
		ip -6 route add fd00:2::/65 encap seg6 mode encap segs fd00:ee::9 via fd00:fe::5 dev w0'
}

# wan_queue RATE QDISC… is the queue of the core, through which nothing else goes.
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
	on switch 'ip -6 route delete fd00:2::/65; ip -6 route delete fd00:ee::9/128
		ip -6 rule delete iif c1 table 101; ip -6 rule delete iif eth1 table 102
		for table in 100 101 102; do ip -6 route flush table $table; done
		ip link delete w0; ip link delete c1; ip netns delete core'
}

loop_fcn() {
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
methods = [{ senders = \"::/0\", method = \"fcn\" }]
pe = [\"fd00:fe::1/128\"]
per_flow = \"1ms\"
marking = \"elsewhere\"" core
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
cnp = [\"fd00:1::fe\"]
accept = [\"fd00:ff::/64\"]
per_flow = \"1ms\""
	sender_role
}
