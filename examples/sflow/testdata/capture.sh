#!/bin/sh
# capture.sh CAPTURE writes ovs.pcap: the sFlow datagrams that Open vSwitch sends
# for the frames of a capture. Its user-space datapath runs in a network
# namespace, as root, with Debian's openvswitch-switch, tcpdump and python3:
#
#	unshare --net ./capture.sh ../../../testdata/tour.pcap
set -eu

dir=$(mktemp -d)
trap 'kill $(cat "$dir"/*.pid) 2>/dev/null || true; rm -rf "$dir"' EXIT
export OVS_RUNDIR="$dir" OVS_LOGDIR="$dir" OVS_DBDIR="$dir" OVS_SYSCONFDIR="$dir"
db=unix:$dir/db.sock

echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6 # nobody else speaks
ip link set lo up
for port in a b; do
	ip link add "${port}0" type veth peer name "${port}1"
	ip link set "${port}0" up
	ip link set "${port}1" up
done

ovsdb-tool create "$dir/conf.db" /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server --remote="p$db" --pidfile="$dir/db.pid" --log-file="$dir/db.log" --detach "$dir/conf.db" 2>/dev/null
ovs-vsctl --db="$db" --no-wait init
ovs-vswitchd "$db" --pidfile="$dir/vswitchd.pid" --log-file="$dir/vswitchd.log" --detach --disable-system 2>/dev/null
ovs-vsctl --db="$db" add-br br0 -- set bridge br0 datapath_type=netdev -- add-port br0 a1 -- add-port br0 b1
ovs-vsctl --db="$db" --id=@s create sflow agent=lo target='"127.0.0.1:6343"' header=128 sampling=1 polling=0 -- \
	set bridge br0 sflow=@s >/dev/null

tcpdump -i lo -U -w ovs.pcap udp dst port 6343 2>/dev/null &
tcpdump=$!
python3 - "$1" <<'PYTHON'
import socket, struct, sys, time
collector = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
collector.bind(("127.0.0.1", 6343))
time.sleep(1)
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind(("a0", 0))
capture, at = open(sys.argv[1], "rb").read(), 24
while at < len(capture):
    length = struct.unpack("<I", capture[at + 8:at + 12])[0]
    port.send(capture[at + 16:at + 16 + length])
    at += 16 + length
    time.sleep(0.01)
time.sleep(2)
PYTHON
kill -INT "$tcpdump"
wait "$tcpdump" || true
