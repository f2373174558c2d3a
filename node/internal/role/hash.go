package role

import (
	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/qpmap"
)

// Hash returns a hash of all of k but the zones of its addresses. Any 32 bits may stand in the place of the queue pair.
// Nobody who does not know the seed can choose keys that collide.
func Hash(k *qpmap.Key, seed uint64) uint64 {
	src, dst := k.Src.As16(), k.Dst.As16()
	seed += uint64(k.Domain) * 0x9E3779B97F4A7C15
	return hash.Mix(hash.Addresses(&src, &dst, seed)^uint64(k.DestQP), seed^0x1D8E4E27C47D124F)
}
