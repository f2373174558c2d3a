#!/bin/sh
# generate.sh OUTDIR writes OUTDIR/<capture>.tsv for every capture in testdata.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=$1
for capture in "$here"/../*.pcap; do
	name=$(basename "$capture" .pcap)
	"$here/decode.sh" "$capture" >"$out/$name.tsv"
done
