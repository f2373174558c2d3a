#!/bin/sh
# decode.sh CAPTURE prints the fields that tshark decodes in a capture: a header line with
# the names of the fields, then one line a packet, tabs between the values and
# commas between the values of a field that occurs more than once.
#
# The same tshark prints the same octets everywhere: it sees no settings of the
# user, resolves no names, and does not guess the protocol in RoCEv2 payload.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
capture=$1

fields() {
	sed '/^#/d' "$here/rocev2.fields"
	case ${capture##*/} in
	rxe-*) sed '/^#/d' "$here/cm.fields" ;;
	frames.pcap) sed '/^#/d' "$here/cm.fields" "$here/ipv6opt.fields" ;;
	*) sed '/^#/d' "$here/ipv6opt.fields" ;;
	esac
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export LC_ALL=C TZ=UTC WIRESHARK_CONFIG_DIR="$tmp"

set -- -n -r "$capture" \
	-o infiniband.rroce.port:4791 \
	-o infiniband.try_heuristic_first:FALSE \
	-o ip.check_checksum:TRUE \
	-o ip.defragment:FALSE \
	-o ipv6.defragment:FALSE \
	-o udp.check_checksum:TRUE \
	-o udp.ignore_ipv6_zero_checksum:TRUE

# Every protocol that tshark 4.0 looks for in the payload of RoCEv2. Some take
# any payload for theirs, or an empty one for a malformed message.
for guess in drbd_rdma eth_over_ib fc_infiniband iser_infiniband lnet_ib \
	mellanox_eoib nvme_rdma rpcrdma_infiniband sdp_infiniband \
	smb_direct_infiniband smcr_infiniband; do
	set -- "$@" --disable-heuristic "$guess"
done

set -- "$@" -T fields -E header=y -E separator=/t -E occurrence=a -E aggregator=,
for field in $(fields); do
	set -- "$@" -e "$field"
done

tshark "$@" 2>"$tmp/stderr" || {
	cat "$tmp/stderr" >&2
	exit 1
}
