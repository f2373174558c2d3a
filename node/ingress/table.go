package ingress

import "github.com/rocecn/rocecn/internal/flowtable"

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
