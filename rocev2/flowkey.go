package rocev2

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/bth"
)

// A FlowKey identifies the flow of data packets by fields that every data packet of the flow has: the addresses and the
// receiver's queue pair. It is comparable and can be the key of a map.
//
// The UDP source port is not part of it, because senders choose it by flow, by queue pair or at random, and change it
// to change the path.
type FlowKey struct {
	Src, Dst netip.Addr // source and final destination
	DestQP   uint32     // queue pair of the receiver, 24 bits
}

// FlowKey returns the key of the flow that p belongs to. Dst is the final destination (see [Datagram.FinalDst]). An
// acknowledgement belongs to the flow of its own direction.
//
// It returns false and the zero key if p is a notification (opcode 0x81), because a notification belongs to no flow:
// its direction is opposite to the data, and a CNP does not carry the queue pair of the receiver.
// [github.com/rocecn/rocecn/message.Message.FlowKey] returns the flow that a notification is about.
func (p *Packet) FlowKey() (key FlowKey, ok bool) {
	if p.BTH.Opcode == bth.CNP {
		return FlowKey{}, false
	}
	return FlowKey{p.Src, p.FinalDst(), p.BTH.DestQP}, true
}

// String returns the key as in "192.0.2.1 > 192.0.2.2 qp 0x000011".
func (k FlowKey) String() string { return fmt.Sprintf("%v > %v qp 0x%06x", k.Src, k.Dst, k.DestQP) }

// Compare orders keys by source, destination and queue pair. It returns a
// negative number if k comes before other, and 0 if they are equal.
func (k FlowKey) Compare(other FlowKey) int {
	return cmp.Or(k.Src.Compare(other.Src), k.Dst.Compare(other.Dst), cmp.Compare(k.DestQP, other.DestQP))
}
