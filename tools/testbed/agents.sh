# Bash, for the host: rocecn run in the machines, and its configuration.
# shellcheck shell=bash disable=SC2016 # machines expand the text in single quotes
: "${work:?}" "${out:?}"

# agent MACHINE CONFIGURATION [NAMESPACE] runs an agent there until agents_end.
agent() {
	local machine=$1 prefix=${3:+ip netns exec $3}
	printf '%s\n' "$2" >"$work/$machine/agent${3-}.toml"
	on "$machine" "${prefix-} rocecn run -config /share/agent${3-}.toml >/run/agent${3-}.log 2>&1 &
		echo \$! >/run/agent${3-}.pid
		renice -n -10 \$! >/dev/null # before perftest, which spins
		within 60 $prefix wget -qO- http://127.0.0.1:9479/readyz || { cat /run/agent${3-}.log && false; }"
}

# agents_end ends all agents, and leaves their logs and metrics with the case.
agents_end() {
	local machine file
	for machine in switch "${senders[@]}" receiver; do
		on "$machine" 'for pid in /run/agent*.pid; do
				[[ -e $pid ]] || continue
				n=${pid#/run/agent} n=${n%.pid}
				${n:+ip netns exec $n} wget -qO- http://127.0.0.1:9479/metrics >/share/agent$n.metrics
				kill -TERM "$(cat "$pid")"
				within 30 eval "! kill -0 $(cat "$pid")"
				rm "$pid"
				mv "/run/agent$n.log" /share/
			done
			nft flush ruleset 2>/dev/null; tc qdisc delete dev eth0 root 2>/dev/null; true'
		for file in "$work/$machine"/agent*; do
			[[ ! -e $file ]] || mv "$file" "$out/${name:?}/$machine.${file##*/}"
		done
	done
}

http='[agent]
http = "127.0.0.1:9479"
'

# level is the queue depth in octets from which on the switch notifies or marks; interval is the
# shortest time between two notifications of one flow.
level=10000 interval=100ms

queue_source="$http
[source.queues]
type = \"qdisc\"
interfaces = [\"eth1\"]
levels = [$level]
"

# each_sender prints an entry with these keys for the network of each sender.
each_sender() {
	local machine
	for machine in "${senders[@]}"; do printf '{ senders = "fd00:%s::/64", %s }, ' "${networks[$machine]}" "$1"; done
}

# switch_kernel METHOD: the kernel marks, or sends Fast CNPs.
switch_kernel() {
	agent switch "$queue_source
[role.switch]
enabled = true
mode = \"kernel\"
sources = [\"queues\"]
self = [\"fd00:1::fe\"]
methods = [$(each_sender "method = \"$1\"")]
capable = [$(each_sender 'capable = "yes"')]
per_flow = \"$interval\""
}

# switch_agent METHOD KEYS: the agent sends, in user space.
switch_agent() {
	agent switch "$queue_source
[sink.net]
type = \"raw\"
[role.switch]
enabled = true
sources = [\"queues\"]
sink = \"net\"
self = [\"fd00:1::fe\"]
methods = [{ senders = \"fd00:1::/64\", method = \"$1\" }]
per_flow = \"$interval\"
marking = \"elsewhere\"
$2"
}

# receiver_role sends CNPs for CE.
receiver_role() {
	agent receiver "$http
[source.traffic]
type = \"packet\"
interfaces = [\"eth0\"]
filter = \"rocev2\"
[sink.net]
type = \"raw\"
[role.receiver]
enabled = true
sources = [\"traffic\"]
sink = \"net\"
self = [\"fd00:2::1\"]
learn = true
interval = \"$interval\""
}

# sender_role receives all of them, and slows down the flows that they name. The parameters of DCQCN
# are those of the paper with rates divided by twenty thousand and times multiplied by two thousand,
# except the increase and the lowest rate, which would take minutes.
sender_role() {
	local machine number
	for machine in "${senders[@]}"; do
		number=${networks[$machine]}
		on "$machine" 'rocecn filter host | nft -f -'
		agent "$machine" "${http}log = { level = \"debug\", format = \"json\" }
[source.notifications]
type = \"nflog\"
group = 7
[source.traffic]
type = \"packet\"
interfaces = [\"eth0\"]
filter = \"rocev2\"
[role.sender]
enabled = true
sources = [\"notifications\", \"traffic\"]
self = [\"fd00:$number::1\"]
accept = [\"fd00:1::fe/128\", \"fd00:2::fe/128\"]
learn = true
act = \"shape\"
interfaces = [\"eth0\"]
install = \"fq\"
reaction = { line = 2_000_000, min = 100_000, additive = 100_000, timer = \"110ms\", alpha_timer = \"110ms\" }"
	done
}
