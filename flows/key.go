package flows

import (
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/rocev2"
)

// A key names one direction between two addresses and a queue pair at its end:
// what a packet has as source, destination and destination queue pair. Its
// domain is 0.
type key = flowtable.Key

// Marks beside the queue pair.
const (
	overIPv4  = flowtable.SrcIPv4 | flowtable.DstIPv4
	withoutQP = 1 << 28 // the packet names no queue pair
	maxQP     = flowtable.MaxQP
)

func keyOf(k rocev2.FlowKey) key { return flowtable.KeyOf(k.Src, k.Dst, k.DestQP&maxQP, 0) }

// hashOf returns a hash of the two addresses, in this direction, the same in
// every table: what depends on it in the output does not change from run to run.
func hashOf(k *key) uint64 { return k.HashWithQP(k.QP&overIPv4, 0) }

// hashOfPair returns a hash of the two addresses, the same in both directions.
func hashOfPair(k *key) uint64 {
	back := k.Reversed(0)
	return hashOf(k) + hashOf(&back)
}
