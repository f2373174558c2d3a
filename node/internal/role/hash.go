package role

import (
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/qpmap"
)

// Hash returns the hash of k as the key of a limit: without the zones of its addresses, and with any 32 bits in the
// place of the queue pair.
func Hash(k *qpmap.Key, seed uint64) uint64 {
	limited := flowtable.Key{Src: k.Src.As16(), Dst: k.Dst.As16(), QP: k.DestQP, Domain: k.Domain}
	return limited.Hash(seed)
}
