# Bash, for the machines: the functions that their scripts call.
# shellcheck shell=bash disable=SC1090

# argument prints the value of a name on the kernel's command line.
argument() { sed -n "s/.*\<$1=\([^ ]*\).*/\1/p" /proc/cmdline; }

# boot sets up the network, and soft-RoCE on machines that are hosts (10.N.0.1, by a router
# 10.N.0.254). Host 0 has no addresses.
boot() {
	local host link number
	host=$(argument host)
	uname -r
	hostname "$(argument name)"
	ip link set lo up
	modprobe -a af_packet
	sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
	[[ $host != 0 ]] || sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
	for link in $(argument net | tr , ' '); do
		number=${link#*:}
		ip link set "${link%:*}" up mtu 1500
		[[ $host == 0 ]] || addresses "${link%:*}" "$number" "$host"
	done
	if [[ $host == 0 ]]; then
		modprobe -a sch_ingress cls_matchall act_mirred
	elif [[ $host == 254 ]]; then
		sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.send_redirects=0
		modprobe -a sch_htb sch_red sch_codel sch_netem cls_flower
	else
		ip route add default via "10.$number.0.254"
		ip -6 route add default via "fd00:$number::fe"
		modprobe -a crc32_generic rdma_rxe ib_uverbs rdma_ucm ib_umad
		rdma link add rxe0 type rxe netdev eth0
		rdma link
	fi
	ip -brief address
	cat /proc/uptime
}

# addresses gives a device the addresses of the host in the network of a number.
addresses() {
	local device=$1 number=$2 host=$3 neighbour=254 mac
	ip address replace "10.$number.0.$host/24" dev "$device"
	ip address replace "fd00:$number::$(printf %x "$host")/64" dev "$device" nodad
	# A neighbour that had to be resolved first would lose packets outside the queue.
	[[ $host == 254 ]] && neighbour=1
	mac=52:54:00:00:0$number:$(printf %02x "$neighbour")
	ip neighbour replace "10.$number.0.$neighbour" lladdr "$mac" dev "$device"
	ip neighbour replace "fd00:$number::$(printf %x "$neighbour")" lladdr "$mac" dev "$device"
}

# serve runs the scripts 1.sh, 2.sh and so on of the folder that the host shares.
serve() {
	local n
	mkfifo /run/never
	exec 9<>/run/never # to wait without starting a program
	touch /share/ready
	for ((n = 1; ; n++)); do
		until [[ -e /share/$n.sh ]]; do read -rt 0.1 -u 9 || true; done
		(cd /share && . "./$n.sh") >"/share/$n.out" 2>&1 </dev/null
		echo $? >"/share/$n.new"
		mv "/share/$n.new" "/share/$n.status"
	done
}

# within runs a command each tenth of a second until it succeeds, for some seconds.
within() {
	local i seconds=$1
	shift
	for ((i = 0; i < seconds * 10; i++)); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	echo "waited $seconds s for: $*" >&2
	return 1
}

# gid prints the index in soft-RoCE's table of its address of a family, 4 or 6.
gid() {
	local i address
	for i in 0 1 2 3 4 5; do
		address=$(cat "/sys/class/infiniband/rxe0/ports/1/gids/$i")
		case $1$address in 4*:ffff:0a*) echo "$i" && return ;; 6fd00:*) echo "$i" && return ;; esac
	done
	echo "no address of IPv$1 in the table of rxe0" >&2
	return 1
}

# listens reports whether a program waits for connections: at a TCP port, or by the connection
# manager.
listens() {
	case $1 in
	cm) rdma resource show cm_id | grep -qi 'state LISTEN' ;;
	*) [[ $(ss -tlnH sport = ":$1") ]] ;;
	esac
}

# capture begins to write the packets of a filter on the given interfaces into memory, and
# capture_end moves them into the shared folder: INTERFACE.pcap.
capture() {
	local filter=$1 device
	shift
	rm -f /dev/shm/*.pcap /run/capture.*
	for device; do
		tcpdump -Z root -i "$device" -B 16384 -s 0 --time-stamp-precision nano -w "/dev/shm/$device.pcap" "$filter" \
			2>"/run/capture.$device.log" &
		echo $! >"/run/capture.$device.pid"
	done
	for device; do
		within 60 grep -q listening "/run/capture.$device.log" || { cat "/run/capture.$device.log" && return 1; }
	done
}
capture_end() {
	local pid
	sleep 1 # packets in flight
	for pid in /run/capture.*.pid; do kill -INT "$(cat "$pid")"; done
	for pid in /run/capture.*.pid; do within 60 eval "! kill -0 $(cat "$pid")"; done
	grep -h 'dropped by kernel' /run/capture.*.log | sort -u
	mv /dev/shm/*.pcap /share/
}

# counters prints the counters of soft-RoCE.
counters() { (cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . ./*) | sed 's,^\./,,; s/:/ /'; }
