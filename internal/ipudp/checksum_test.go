package ipudp

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Fold is the sum of the four 16-bit words with end-around carry: modulo 65535, and 0 only for 0 (RFC 1071).
func TestFold(t *testing.T) {
	random := rand.New(rand.NewPCG(10, 71))
	sums := []uint64{0, 1, 0xFFFF, 0x10000, 0x1FFFE, 0x1FFFF, 0xFFFF0000, 0xFFFFFFFF, 1 << 32, 1<<33 - 1,
		0xFFFFFFFF00000000, 0xFFFF0000FFFF0000, 0x8000800080008000, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}
	for range 10_000 {
		sums = append(sums, random.Uint64()>>random.UintN(64))
	}
	for _, s := range sums {
		want := uint16(s % 0xFFFF)
		if want == 0 && s != 0 {
			want = 0xFFFF
		}
		require.Equal(t, want, Fold(s), "%#x", s)
	}
}
