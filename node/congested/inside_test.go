package congested

import (
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/ppfc"
	"github.com/stretchr/testify/require"
)

// Nobody knows the seed that is not given.
func TestSeed(t *testing.T) {
	seeds := map[uint64]bool{}
	for range 10 {
		a, err := New(Config{Enabled: true, MaxFlows: 4, MaxSent: 4, MaxRejected: 4, MaxPaused: 4})
		require.NoError(t, err)
		require.NotZero(t, a.memory.Seed())
		seeds[a.memory.Seed()] = true
	}
	require.Len(t, seeds, 10)
	a, err := New(Config{Enabled: true, Seed: 7})
	require.NoError(t, err)
	require.EqualValues(t, 7, a.memory.Seed())
}

// There is room for as many flows as asked for, in sets of four, a power of two of
// them; and how many there are is counted, so that without any none is looked for.
func TestPausedFlows(t *testing.T) {
	for flows, sets := range map[int]int{1: 1, 4: 1, 5: 2, 8: 2, 9: 4, 16: 4, 17: 8, 4096: 1024, 4097: 2048} {
		p := newPausedFlows(flows)
		require.Len(t, p.sets, sets, flows)
	}
	p := newPausedFlows(4)
	n := ppfc.New(17, 0xFFFF, ppfc.Extension{Congested: netip.MustParseAddr("192.0.2.1")})
	for i, want := range []int{1, 2, 3, 4, 4, 4} {
		require.Equal(t, i >= 4, p.put(uint64(i), &n, netip.MustParseAddr("192.0.2.2")))
		require.Equal(t, want, p.n)
	}
	require.False(t, p.put(5, &n, netip.MustParseAddr("192.0.2.2")), "the same again")
	for want := 3; want >= 0; want-- {
		_, _, ok := p.take(0)
		require.True(t, ok)
		require.Equal(t, want, p.n)
	}
	_, _, ok := p.take(0)
	require.False(t, ok)
}
