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
