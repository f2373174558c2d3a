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

// Sum returns the sum of RFC 1071 section 1, which is computed here word by word, for any length.
func TestSum(t *testing.T) {
	random := rand.New(rand.NewPCG(10, 72))
	for n := range 600 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32() >> random.UintN(9))
			if n%3 == 0 {
				b[i] = 0xFF // as many carries as there can be
			}
		}
		start := random.Uint64() >> 24
		want := start
		for i, octet := range b {
			if i%2 == 0 {
				want += uint64(octet) << 8
			} else {
				want += uint64(octet)
			}
		}
		require.Equal(t, Fold(want), Fold(Sum(start, b)), "%d octets", n)
	}
}

// Two carries in one addition to a sum of all ones: 2^64-1 + 2^64-1 + 1 is 1, modulo 65535.
func TestSumCarries(t *testing.T) {
	b := make([]byte, 128)
	for _, at := range []int{64, 64 + 48} {
		be.PutUint64(b[at:], math.MaxUint64)
	}
	be.PutUint64(b[64+56:], 1)
	require.Equal(t, uint16(1), Fold(Sum(0, b)))
}
