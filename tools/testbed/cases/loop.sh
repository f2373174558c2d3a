# Bash. The loop: one load that exceeds the rate of a queue, with each method of notification. The
# receiver is 20 ms away from the switch: its answers come that much later.
# shellcheck shell=bash disable=SC2034
: "${out:?}" "${level:?}" "${interval:?}"

# Each of the queue pairs has this number of messages of two packets to send, and at most
# outstanding of them in flight. The sender gives a message to its port loop_rate times a second,
# for all queue pairs together, which makes a port of 8 Mbit/s.
loop_qps=4 loop_messages=480 loop_outstanding=8 loop_rate=466

# loop runs the load $RUNS times, 5 if not set, with each of $VARIANTS: all have one run
# before any has the next.
case_loop() {
	local run variant queue
	for ((run = 1; run <= ${RUNS:-5}; run++)); do
		for variant in ${VARIANTS:-nothing cnp fastcnp proxy ppfc fcn}; do
			queue=queue
			if [[ $variant == fcn ]]; then queue=wan_queue && wan_up srv6; fi
			$queue 4mbit bfifo limit 40000
			on receiver 'tc qdisc replace dev eth0 root netem delay 20ms limit 10000'
			# The packets from which the agents learn the queue pairs must not fill the queue.
			on sender 'tc qdisc replace dev eth0 root fq maxrate 3900kbit quantum 1100 initial_quantum 1100'
			name=loop-$variant.$run
			mkdir -p "$out/$name"
			"loop_$variant"
			begin "$name"
			on sender "capture 'udp port 4791 or ip6 proto 60' eth0"
			printf '{"needed": %d, "level": %d, "warm": %d}\n' $((loop_qps * loop_messages * 2)) "$level" \
				$((loop_outstanding * 2)) >"$out/$name/load.json"
			perftest ib_write_bw -u 18 -s 2048 -n "$loop_messages" -q "$loop_qps" -t "$loop_outstanding" \
				-Q 1 --tclass=2 --perform_warm_up --rate_limit_type=SW --rate_units=p --rate_limit="$loop_rate" \
				--burst_size=1
			on sender capture_end >"$out/$name/sender.capture.txt"
			mv "$work/sender/eth0.pcap" "$out/$name/sender.pcap"
			finish
			agents_end
			if [[ $variant == fcn ]]; then wan_down; fi
		done
	done
}

loop_nothing() { :; }
loop_cnp() { switch_kernel mark && receiver_role && sender_role; }
loop_fastcnp() { switch_kernel fastcnp && sender_role; }
loop_ppfc() { interval=50ms switch_agent ppfc 'pause_us = 65535' && sender_role; }
loop_proxy() {
	switch_agent proxy 'proxies = [{ senders = "fd00:1::/64", proxy = "fd00:1::fe" }]

[source.messages]
type = "udp"
listen = ["[fd00:1::fe]:1022"]
[source.access]
type = "packet"
interfaces = ["eth0"]
filter = "rocev2"
[role.proxy]
enabled = true
sources = ["messages"]
observe = ["access"]
sink = "net"
self = ["fd00:1::fe"]
accept = ["fd00:1::fe/128"]
senders = [{ prefix = "fd00:1::/64", send = "cnp" }]
per_flow = "1ms"'
	sender_role
}
