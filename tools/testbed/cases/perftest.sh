# Bash. The other operations and transports of perftest, and rping, through a queue that drops. -u
# 18 is a second until retransmission.
# shellcheck shell=bash

# one NAME COMMAND… sends a command's traffic through a short queue. No datagram and no packet of UC
# may be lost, or perftest's receiver waits for ever: their limit is higher.
one() {
	local name=$1
	shift
	queue 8mbit bfifo limit "${limit:-30000}"
	begin "$name"
	"$@"
	finish
}

case_read() { one read perftest ib_read_bw -u 18 -s 5000 -n 40 -q 2 -t 4 -Q 1; }
case_send() { one send perftest ib_send_bw -u 18 -s 5000 -n 40 -q 2 -t 4 -Q 1; }
case_atomic() { one atomic perftest ib_atomic_bw -u 18 -A FETCH_AND_ADD -n 50 -t 4 -Q 1; }
case_write_uc() { one write-uc perftest ib_write_bw -c UC -s 3000 -n 40 -t 4 -Q 1; }
case_send_uc() { limit=1000000 one send-uc perftest ib_send_bw -c UC -s 3000 -n 20 -q 2 -t 2 -Q 1; }
case_send_ud() { limit=1000000 one send-ud perftest ib_send_bw -c UD -s 900 -n 40 -q 2 -t 4 -Q 1; }

# rping's option -S must be the same at both ends, or the server reads more than fits into its
# buffer. Its client may end with a status of failure after all pings, as it closes a channel that
# another of its threads waits for: the case requires that ten pings came back.
case_rping() {
	one rping transfer 'rping -s -a fd00:2::1 -C 10 -S 1000' \
		"bash -c 'rping -c -v -a fd00:2::1 -C 10 -S 1000 | grep -c ping.data | grep -x 10'" cm
}
