package lab

import (
	"testing"

	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// postedPackets is the number of packets of the messages of requireFinished.
const postedPackets = 4 * (300 + 1 + 98)

// requireFinished posts three messages of each of four hosts to the fifth, and requires that all are completed.
func requireFinished(t *testing.T, n *Network) {
	t.Helper()
	finished := 0
	n.Done = func(*Flow, int64, sim.Time) { finished++ }
	for _, h := range n.Hosts()[:4] {
		f := must(n.Flow(h, n.Hosts()[4], 0))
		f.Post(300 * 1024)
		f.Post(1)
		n.RunAt(5*ms, func() { f.Post(100_000) })
	}
	n.Until(2 * sim.Second)
	require.NoError(t, n.Check())
	require.Equal(t, 12, finished)
}

// Each lost packet is retransmitted once, and no other one; go-back-N retransmits more.
func TestSelective(t *testing.T) {
	run := func(selective bool) Counts {
		cfg := dcqcn(CNP)
		cfg.Selective, cfg.Buffer.Queue, cfg.AckEvery = selective, 30_000, 1
		n, _ := star(cfg, 4, 100*sim.Gbps, µs)
		requireFinished(t, n)
		for _, f := range n.Flows() {
			require.EqualValues(t, 300*1024+4+100_000, f.Octets(), "with the pad of one octet")
		}
		require.Greater(t, n.Counts().LostData, uint64(100))
		return n.Counts()
	}
	c := run(true)
	require.EqualValues(t, postedPackets+c.LostData, c.Packets)
	require.EqualValues(t, postedPackets, c.Delivered)
	c = run(false)
	require.Greater(t, c.Packets, postedPackets+c.LostData*5/4)
}

// The last packet of a message, and a retransmission, are retransmitted after the timeout if they are lost.
func TestSelectiveTimeout(t *testing.T) {
	cfg := dcqcn(None)
	cfg.Selective, cfg.Buffer.Queue = true, 3000
	n, _ := star(cfg, 8, 100*sim.Gbps, µs)
	finished := 0
	n.Done = func(*Flow, int64, sim.Time) { finished++ }
	for _, h := range n.Hosts()[:8] {
		must(n.Flow(h, n.Hosts()[8], 0)).Post(3 * 1024)
	}
	n.Until(2 * sim.Second)
	require.NoError(t, n.Check())
	require.Equal(t, 8, finished)
	require.Positive(t, n.Counts().LostData)
}

// Four links of a quarter of the rate carry a sprayed flow at full rate; a flow on one path has a quarter.
func TestSpray(t *testing.T) {
	use := func(spray bool) (*Network, float64) {
		cfg := dcqcn(None)
		cfg.Selective, cfg.Spray = true, spray
		n := must(New(cfg))
		near, far := n.Switch(), n.Switch()
		n.Link(n.Host(), near, 100*sim.Gbps, µs)
		n.Link(n.Host(), far, 100*sim.Gbps, µs)
		for range 4 {
			middle := n.Switch()
			n.Link(near, middle, 25*sim.Gbps, µs)
			n.Link(middle, far, 25*sim.Gbps, µs)
		}
		f := must(n.Flow(n.Hosts()[0], n.Hosts()[1], 0))
		f.Endless()
		n.Until(2 * ms)
		require.NoError(t, n.Check())
		return n, float64(f.Octets()) * 8 / n.Sim.Now().Seconds() / 1e9 * wirePacket / 1024
	}
	n, all := use(true)
	require.InDelta(t, 100, all, 4)
	require.Positive(t, n.Counts().Reordered)
	n, one := use(false)
	require.InDelta(t, 25, one, 1)
	require.Zero(t, n.Counts().Reordered)
}

// The numbers of early packets survive growth, and a wrap of the 32 bits.
func TestReceived(t *testing.T) {
	for _, first := range []uint32{0, 77, 1<<32 - 100} {
		var s received
		want := map[uint32]bool{}
		for d := uint32(1); d < 5000; d += 1 + d%7 {
			s.set(first+d, first)
			want[first+d] = true
		}
		for d := uint32(0); d < 5100; d++ {
			require.Equal(t, want[first+d], s.has(first+d, first), d)
		}
		for number := range want {
			require.True(t, s.remove(number))
			require.False(t, s.remove(number))
		}
	}
}

// A switch forwards the headers of each packet for which it has no space, and each is retransmitted once, without the
// timeout, even the last one of a message.
func TestTrim(t *testing.T) {
	for _, c := range []struct {
		name  string
		spray bool
	}{{"one path", false}, {"sprayed", true}} {
		t.Run(c.name, func(t *testing.T) {
			cfg := dcqcn(CNP)
			cfg.Selective, cfg.Spray, cfg.AckEvery, cfg.Timeout = true, c.spray, 1, 0
			cfg.Buffer.Queue, cfg.Buffer.Trim = 30_000, true
			n, out := star(cfg, 4, 100*sim.Gbps, µs)
			headers := uint64(0)
			var d rocev2.Datagram
			out.peer.Tap(func(octets []byte) {
				require.NoError(t, d.Decode(octets, rocev2.DecodeOptions{AllowTruncated: true}))
				if d.Trimmed {
					headers++
					require.Len(t, octets, 14+40+8+12)
				}
			})
			requireFinished(t, n)
			counts := n.Counts()
			require.Greater(t, counts.LostData, uint64(100))
			require.Equal(t, counts.LostData, counts.Trimmed)
			require.Equal(t, counts.Trimmed, headers)
			require.EqualValues(t, postedPackets+counts.LostData, counts.Packets)
			require.EqualValues(t, postedPackets, counts.Delivered)
		})
	}
}
