package bth_test

import (
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/stretchr/testify/require"
)

func TestPSN(t *testing.T) {
	for _, c := range []struct {
		a, b uint32
		want int
	}{
		{0, 0, 0}, {1, 0, 1}, {0, 1, -1}, {0, bth.MaxPSN, 1}, {bth.MaxPSN, 0, -1},
		{0x800000, 0, -0x800000}, {0x7FFFFF, 0, 0x7FFFFF}, {5, 0xFFFFF0, 21},
	} {
		require.Equal(t, c.want, bth.ComparePSN(c.a, c.b), "%#x %#x", c.a, c.b)
		require.Equal(t, c.a, bth.AddPSN(c.b, uint32(c.want)), "%#x %#x", c.a, c.b)
	}
	for _, c := range [][3]uint32{
		{0, 1024, 1}, {1, 1024, 1}, {1024, 1024, 1}, {1025, 1024, 2}, {4096, 1024, 4}, {1<<32 - 1, 256, 1 << 24},
		{1025, 0, 5},
	} {
		require.Equal(t, c[2], bth.ReadPSNs(c[0], uint16(c[1])), c)
	}
}
