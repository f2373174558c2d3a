# Bash. A proxy beside a VPN: the hosts are in a VPN that the WAN of wan.sh carries. The queue of
# the core fills. The core sees the flow in its tunnel but has no route to its sender, because no
# router outside the VPN has one: so it notifies the PE, which is the proxy. The PE sends CNPs into
# the VPN from the address of the flow's receiver, as its own address is not known there.
# shellcheck shell=bash disable=SC2016,SC2154 # machines expand the text in single quotes

# vpn_up puts the sender's port and the tunnel of the ingress PE into a VRF.
vpn_up() {
	wan_up ip6ip6 10ms
	on switch 'set -e
		modprobe vrf
		ip -6 rule delete iif eth0 table 101
		ip link add vpn type vrf table 101
		ip link set vpn up
		ip link set t0 master vpn
		ip link set eth0 master vpn
		ip -6 route replace fd00:2::/64 dev t0 vrf vpn
		addresses eth0 1 254
		# The TCP connection of perftest over IPv4 goes around the VPN.
		ip route add 10.2.0.0/24 dev eth1 vrf vpn
		ip route add 10.1.0.0/24 dev eth0'
	# No router outside knows the sender, not even the next one.
	on switch '! ip -n core -6 route get fd00:1::1 2>/dev/null && ! ip -6 route get fd00:1::1 2>/dev/null'
}

vpn_down() {
	on switch 'ip link delete vpn
		ip -6 rule add iif eth0 table 101
		addresses eth0 1 254'
	wan_down
}

case_vpn_proxy() {
	vpn_up
	wan_case vpn-proxy vpn_proxy
	vpn_down
}

vpn_proxy() {
	core_role proxy fd00:1::/64 1ms 'proxies = [{ senders = "fd00:1::/64", proxy = "fd00:fe::1" }]'
	agent switch "$http
[source.access]
type = \"packet\"
interfaces = [\"eth0\"]
filter = \"rocev2\"
[source.messages]
type = \"udp\"
listen = [\"[fd00:fe::1]:1022\"]
[sink.vpn]
type = \"raw\"
device = \"vpn\"
[role.proxy]
enabled = true
sources = [\"messages\"]
observe = [\"access\"]
sink = \"vpn\"
self = [\"fd00:fe::1\"]
cnp_source = \"destination\"
accept = [\"fd00:ff::/64\"]
senders = [{ prefix = \"fd00:1::/64\", send = \"cnp\" }]
per_flow = \"1ms\""
	sender_role
}
