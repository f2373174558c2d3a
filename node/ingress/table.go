package ingress

import (
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A table holds the flows, by key and in the order in which they were seen last: the addresses as data packets
// have them, the receiver's queue pair, and the domain, for two VPNs may use the same addresses.
type table = flowtable.Table[flowtable.Key, entry]

// An entry is a flow of the table, with its key 64 octets without pointers, a cache line.
type entry struct {
	seen  int64  // when its last packet came
	label uint32 // 20 bits
	pKey  uint16 // of its last packet
	data  bool   // it has had packets other than acknowledgements and notifications
}

func keyOf(k qpmap.Key) flowtable.Key {
	return flowtable.KeyOf(k.Src, k.Dst, k.DestQP, k.Domain)
}

// public returns the key of the table as the rest of the library has it.
func public(k *flowtable.Key) qpmap.Key {
	src, dst := k.Addrs()
	return qpmap.Key{FlowKey: rocev2.FlowKey{Src: src, Dst: dst, DestQP: k.QP & flowtable.MaxQP}, Domain: k.Domain}
}
