package flows

import (
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/rocev2"
)

// A key consists of the source, destination and destination queue pair of a packet. Its domain is
// 0.
type key = flowtable.Key

// Flags stored next to the queue pair.
const (
	overIPv4  = flowtable.SrcIPv4 | flowtable.DstIPv4
	withoutQP = 1 << 28 // the packet has no queue pair number
	maxQP     = flowtable.MaxQP
)

func keyOf(k rocev2.FlowKey) key { return flowtable.KeyOf(k.Src, k.Dst, k.DestQP&maxQP, 0) }

// hashOf returns a hash of the two addresses in this direction. It is the same in every table, so
// that the output does not change from run to run.
func hashOf(k *key) uint64 { return k.HashWithQP(k.QP&overIPv4, 0) }

// hashOfPair returns a hash of the two addresses that is the same in both directions.
func hashOfPair(k *key) uint64 {
	back := k.Reversed(0)
	return hashOf(k) + hashOf(&back)
}
