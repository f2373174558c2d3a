#!/bin/sh
# How fast rocecn flows is: a million frames (728 MB) against reading the file
# at all, by cat, with the file in the page cache; and tshark's four fields where
# tshark is installed. Every line is the best of some runs, in seconds.
#
#	bench/flows.sh [CAPTURE]
#
# Without a capture it makes one in the temporary folder.
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/rocecn" ./cmd/rocecn
capture=${1:-}
if [ -z "$capture" ]; then
	capture=$dir/million.pcap
	go run ./bench/flows -frames 1000000 "$capture"
fi
ls -l "$capture"

# best NAME RUNS COMMAND… prints the shortest time, and the most memory.
best() {
	name=$1 runs=$2
	shift 2
	for _ in $(seq "$runs"); do
		/usr/bin/time -f '%e %M' -o "$dir/time" "$@" >/dev/null 2>&1
		cat "$dir/time"
	done | sort -n | awk -v name="$name" '
		NR == 1 { best = $1 }
		$2 > most { most = $2 }
		END { printf "%-28s %6.2f s  %4d MiB\n", name, best, most / 1024 }'
}

best 'cat' 10 cat "$capture"
best 'rocecn flows' 10 "$dir/rocecn" flows "$capture"
for workers in 1 2; do
	best "rocecn flows -workers $workers" 10 "$dir/rocecn" flows -workers "$workers" "$capture"
done
best 'rocecn flows -no-icrc' 10 "$dir/rocecn" flows -no-icrc "$capture"
if command -v tshark >/dev/null; then
	best 'tshark -T fields, four' 1 tshark -r "$capture" -T fields -e frame.time_epoch \
		-e infiniband.bth.destqp -e infiniband.bth.psn -e infiniband.bth.opcode
fi
