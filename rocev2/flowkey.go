package rocev2

import (
	"cmp"
	"fmt"
	"net/netip"
)

// A FlowKey names the flow of a data packet by fields that every data packet of
// the flow has: the addresses and the receiver's queue pair. It is comparable,
// so it can be the key of a map.
//
// The UDP source port does not belong to it: senders choose it by flow, by
// queue pair or at random, and change it to change the path.
type FlowKey struct {
	Src, Dst netip.Addr
	DestQP   uint32 // 24 bits
}

// FlowKey returns the key of the flow that p belongs to, if it is a data packet. A
// CNP does not name the flow that it is about: its key is that of the opposite
// direction. [github.com/rocecn/rocecn/fastcnp.Notification.FlowKey] and
// [github.com/rocecn/rocecn/proxymsg.Message.FlowKey] return that of the data.
// Dst is the final destination (see [Datagram.FinalDst]).
func (p *Packet) FlowKey() FlowKey {
	return FlowKey{p.Src, p.FinalDst(), p.BTH.DestQP}
}

// String returns the key as in "192.0.2.1 > 192.0.2.2 qp 0x000011".
func (k FlowKey) String() string {
	return fmt.Sprintf("%v > %v qp 0x%06x", k.Src, k.Dst, k.DestQP)
}

// Compare orders keys by source, destination and queue pair; it returns a
// negative number where k comes before other, 0 where they are the same.
func (k FlowKey) Compare(other FlowKey) int {
	return cmp.Or(k.Src.Compare(other.Src), k.Dst.Compare(other.Dst), cmp.Compare(k.DestQP, other.DestQP))
}
