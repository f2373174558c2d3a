# Bash. Two senders write to one receiver at the same time. The packets in flight of one sender fit
# into the queue, those of both do not. The receiver's answers are 20 ms late, as in the loop.
# shellcheck shell=bash
: "${out:?}"

# case_incast runs without notifications, with CNPs of the receiver, and with Fast CNPs.
case_incast() {
	local how
	for how in nothing cnp fastcnp; do with_two_senders incast "$how"; done
}

# incast HOW is one run, with the notifications of the loop's variant of that name.
incast() {
	queue 4mbit bfifo limit 40000
	on receiver 'tc qdisc replace dev eth0 root netem delay 20ms limit 10000'
	name=incast-$1
	"loop_$1"
	begin "incast-$1"
	case $1 in
	cnp | fastcnp) told "$1" ;;
	esac
	perftest ib_write_bw -u 18 -s 4096 -n 120 -q 2 -t 4 -Q 1 --tclass=2
	finish
	agents_end
	on receiver 'tc qdisc delete dev eth0 root 2>/dev/null; true'
}
