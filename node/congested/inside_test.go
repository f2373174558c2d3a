package congested

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/stretchr/testify/require"
)

// Without a configured seed, each role has a random one.
func TestSeed(t *testing.T) {
	seeds := map[uint64]bool{}
	for range 10 {
		a := wiretest.Must(New(Config{Enabled: true, MaxFlows: 4, MaxSent: 4, MaxRejected: 4, MaxPaused: 4}))(t)
		require.NotZero(t, a.memory.Seed())
		seeds[a.memory.Seed()] = true
	}
	require.Len(t, seeds, 10)
	a := wiretest.Must(New(Config{Enabled: true, Seed: 7}))(t)
	require.EqualValues(t, 7, a.memory.Seed())
}

// The table has room for the configured number of flows, in a power of two of sets of four. Flows are counted, so
// that an empty table is not searched.
func TestPausedFlows(t *testing.T) {
	for _, c := range []struct{ flows, sets int }{{1, 1}, {4, 1}, {5, 2}, {8, 2}, {9, 4}, {16, 4}, {17, 8},
		{4096, 1024}, {4097, 2048}} {
		t.Run(fmt.Sprint(c.flows), func(t *testing.T) {
			a := wiretest.Must(New(Config{Enabled: true, MaxPaused: c.flows}))(t)
			require.Len(t, a.paused.sets.All, c.sets, c.flows)
		})
	}
	p := pausedFlows{sets: flowtable.NewSets[pausedFlow](4)}
	s := congestion{Decision: new(node.Decision)}
	s.Flow.Src, s.Flow.Dst, s.Flow.Domain = netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1"), 9
	n := ppfc.New(17, 0xFFFF, ppfc.Extension{Congested: s.Flow.Dst})
	for i, want := range []uint32{1, 2, 3, 4, 4, 4} {
		s.Flow.DestQP = uint32(i)
		require.Equal(t, i >= 4, p.add(&s, &n, s.Flow.Src))
		require.Equal(t, want, p.ports[0])
	}
	require.False(t, p.add(&s, &n, s.Flow.Src), "the same again")
	found := map[qpmap.Key]bool{}
	require.Nil(t, p.nextReleased())
	p.releasePort(0)
	for want := range uint32(4) {
		f := p.nextReleased()
		require.NotNil(t, f)
		found[role.FlowOf(&f.flow)] = true
		p.remove(f)
		require.Equal(t, 3-want, p.ports[0])
	}
	require.Contains(t, found, s.Flow)
	require.Len(t, found, 4)
	require.Nil(t, p.nextReleased())
}

// Ports with the same lower bits are kept apart, and a port without flows is not searched.
func TestPausedPorts(t *testing.T) {
	p := pausedFlows{sets: flowtable.NewSets[pausedFlow](4)}
	s := congestion{Decision: new(node.Decision)}
	s.Flow.Src, s.Flow.Dst = netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1")
	n := ppfc.New(17, 0xFFFF, ppfc.Extension{Congested: s.Flow.Dst, Port: 5})
	p.add(&s, &n, s.Flow.Src)
	p.releasePort(5 + 1024)
	require.Nil(t, p.nextReleased())
	at := p.next
	p.releasePort(6)
	require.Nil(t, p.nextReleased())
	require.Equal(t, at, p.next)
	p.releasePort(5)
	p.releasePort(5)
	f := p.nextReleased()
	require.EqualValues(t, 5, f.port)
	p.remove(f)
	p.releasePort(5)
	require.Nil(t, p.nextReleased())
}
