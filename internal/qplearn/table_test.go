package qplearn

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// No half of an address hides the others, so that an attacker without the seed cannot choose keys
// that collide.
func TestHash(t *testing.T) {
	seed := rand.Uint64()
	seen := map[uint64]numbered{}
	for _, half := range []uint64{0, 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93} {
		for i := range uint64(1000) {
			for n := range 4 { // the half that is the same
				halves := [4]uint64{i, i, i, i}
				halves[n] = half
				k := numbered{key{QP: 17}, 18}
				for j, h := range halves {
					if j < 2 {
						binary.LittleEndian.PutUint64(k.Src[8*j:], h)
					} else {
						binary.LittleEndian.PutUint64(k.Dst[8*j-16:], h)
					}
				}
				h := k.Hash(seed)
				require.True(t, seen[h] == numbered{} || seen[h] == k, k)
				seen[h] = k
			}
		}
	}
}
