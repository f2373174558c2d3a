package hash

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMix(t *testing.T) {
	require.Equal(t, uint64(0), Mix(0, 1<<63))
	require.Equal(t, uint64(0x40), Mix(1<<35, 1<<35)) // 2⁷⁰
	require.Equal(t, uint64(0xFFFFFFFFFFFFFFFF), Mix(1<<64-1, 1<<64-1))
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		a, b := r.Uint64(), r.Uint64()
		product := new(big.Int).Mul(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
		low := new(big.Int).And(product, new(big.Int).SetUint64(1<<64-1))
		high := product.Rsh(product, 64)
		require.Equal(t, high.Uint64()^low.Uint64(), Mix(a, b))
	}
}

// Whatever one half of an address is, also what makes a factor 0 for another
// seed, all other octets count.
func TestAddresses(t *testing.T) {
	zeroes := []uint64{0, 1<<64 - 1, 0xA0761D6478BD642F, 0x78BD642FA0761D64} // of seed 0, in the last two
	r := rand.New(rand.NewPCG(1, 2))
	for _, seed := range []uint64{r.Uint64(), r.Uint64()} {
		seen := map[uint64][2][16]byte{}
		for fixed := range 4 {
			for _, zero := range zeroes {
				for range 100 {
					var words [4]uint64
					for i := range words {
						words[i] = r.Uint64()
					}
					words[fixed] = zero
					var addrs [2][16]byte
					for i, w := range words {
						le.PutUint64(addrs[i/2][i%2*8:], w)
					}
					h := Addresses(&addrs[0], &addrs[1], seed)
					require.Zero(t, seen[h], addrs)
					seen[h] = addrs
					require.NotEqual(t, h, Addresses(&addrs[1], &addrs[0], seed), "in the other order")
					require.NotEqual(t, h, Addresses(&addrs[0], &addrs[1], seed+1), "for another seed")
				}
			}
		}
	}
}
