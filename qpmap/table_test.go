package qpmap

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// No half of an address hides the others, so that nobody who does not know the
// seed can choose keys that collide.
func TestHash(t *testing.T) {
	seed := rand.Uint64()
	seen := map[uint64]key{}
	for _, half := range []uint64{0, 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93} {
		for i := range uint64(1000) {
			for n := range 4 { // the half that is the same
				halves := [4]uint64{i, i, i, i}
				halves[n] = half
				k := key{id: 17}
				for j, h := range halves {
					if j < 2 {
						binary.LittleEndian.PutUint64(k.src[8*j:], h)
					} else {
						binary.LittleEndian.PutUint64(k.dst[8*j-16:], h)
					}
				}
				h := k.hash(seed)
				require.True(t, seen[h] == key{} || seen[h] == k, k)
				seen[h] = k
			}
		}
	}
}
