# Bash. RDMA WRITE through a queue that marks, and through one that drops.
# shellcheck shell=bash disable=SC2034

# A limit that is never reached: RED only marks.
red='red limit 1000000 min 5000 max 20000 avpkt 1000 burst 10 bandwidth 8mbit probability 0.3'

case_write_marks() {
	queue 8mbit "$red ecn"
	begin write-marks
	perftest ib_write_bw -u 18 -s 5000 -n 60 -q 2 -t 4 -Q 1 --tclass=2
	finish
}

case_write_drops() {
	queue 8mbit "$red"
	begin write-drops
	perftest ib_write_bw -u 18 -s 5000 -n 60 -q 2 -t 4 -Q 1
	finish
}
