package lab

import (
	"testing"
	"time"

	"github.com/rocecn/rocecn/lab/sim"
	"github.com/stretchr/testify/require"
)

// A scripted Control has the rate and window of a test, and records the calls.
type scripted struct {
	ControlBase
	rate, window uint64
	acks         []Ack
	sent, lost   uint64
	acked        func(a *Ack)
}

func (s *scripted) Rate() uint64                    { return s.rate }
func (s *scripted) Window() uint64                  { return s.window }
func (s *scripted) Sent(octets uint64, _ time.Time) { s.sent += octets }
func (s *scripted) Lost(octets uint64, _ time.Time) { s.lost += octets }
func (s *scripted) Acked(a *Ack, _ time.Time) {
	s.acks = append(s.acks, *a)
	if s.acked != nil {
		s.acked(a)
	}
}

// wirePacket is the octets of a packet on the wire: 1,024 of data, 82 of headers, 20 of preamble and gap.
const wirePacket = 1024 + 82 + 20

// runScripted sends packets from one host to another through a switch, and returns when each left.
func runScripted(t *testing.T, c *scripted, change func(*Config), packets int, before func(*Network, *Flow)) (
	n *Network, f *Flow, left []sim.Time) {
	t.Helper()
	cfg := dcqcn(CNP)
	cfg.AckEvery = 1
	cfg.Control = func(uint64) Control { return c }
	change(&cfg)
	n, _ = star(cfg, 1, 100*sim.Gbps, µs)
	f = must(n.Flow(n.Hosts()[0], n.Hosts()[1], 0))
	n.Delivered = func(_ *Flow, sent sim.Time) { left = append(left, sent) }
	f.Post(int64(packets) * 1024)
	if before != nil {
		before(n, f)
	}
	n.Until(20 * ms)
	require.NoError(t, n.Check())
	return n, f, left
}

// At 1 Gbit/s a packet of 1,126 octets takes 9,008 ns. A rate that changes after 1,008 ns, ten times as high, leaves
// 800 of the remaining 8,000 ns; a tenth of the rate leaves 80,000 ns.
func TestRateChangedElsewhere(t *testing.T) {
	const ns = sim.Nanosecond
	for _, c := range []struct {
		name string
		rate uint64
		want []sim.Time
	}{
		{"ten times", 10e9, []sim.Time{0, 1808 * ns, (1808 + 900) * ns}},
		{"a tenth", 1e8, []sim.Time{0, 81_008 * ns, (81_008 + 90_080) * ns}},
		{"the same", 1e9, []sim.Time{0, 9008 * ns, 18_016 * ns}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scripted{rate: 1e9}
			_, _, left := runScripted(t, s, func(*Config) {}, 3, func(n *Network, f *Flow) {
				n.RunAt(1008*ns, func() { s.rate = c.rate; f.Reconsider() })
			})
			if c.rate == 10e9 {
				c.want[2] = c.want[1] + sim.Rate(c.rate).Time(wirePacket)
			}
			require.Equal(t, c.want, left)
		})
	}
}

// An acknowledgement that raises the rate also moves the next packet.
func TestRateChangedByAck(t *testing.T) {
	s := &scripted{rate: 1e8} // 90,080 ns for a packet
	s.acked = func(*Ack) { s.rate = 1e9 }
	n, f, left := runScripted(t, s, func(*Config) {}, 3, nil)
	trip := n.Alone(f.Source(), f.Destination(), 1024)
	next := trip + (90_080*sim.Nanosecond-trip)/10
	require.Len(t, left, 3)
	require.Equal(t, []sim.Time{0, next, next + 9008*sim.Nanosecond}, left)
	require.EqualValues(t, 3*wirePacket, s.sent)
	for i, a := range s.acks {
		require.Equal(t, time.Duration(trip/sim.Nanosecond), a.RTT)
		require.EqualValues(t, 1024, a.Octets)
		require.EqualValues(t, i+1, a.Number)
		require.False(t, a.Marked)
	}
}

// With a window of four packets, four leave in each round trip.
func TestControlWindow(t *testing.T) {
	s := &scripted{rate: 100e9, window: 4 * wirePacket}
	n, f, left := runScripted(t, s, func(*Config) {}, 40, nil)
	trip := n.Alone(f.Source(), f.Destination(), 1024)
	require.Len(t, left, 40)
	for i := 4; i < len(left); i++ {
		require.Equal(t, left[i-4]+trip, left[i])
	}

	// A window that acknowledgements would not reach counts as that number of packets.
	s = &scripted{rate: 100e9, window: 1}
	_, _, left = runScripted(t, s, func(cfg *Config) { cfg.AckEvery = 8 }, 40, nil)
	require.Len(t, left, 40)

	// A window that opens elsewhere.
	s = &scripted{rate: 100e9, window: 1}
	_, _, left = runScripted(t, s, func(*Config) {}, 2, func(n *Network, f *Flow) {
		n.RunAt(µs, func() { s.window = 2 * wirePacket; f.Reconsider() })
	})
	require.Equal(t, []sim.Time{0, µs}, left)
}

// Marks come with the acknowledgements, and losses are counted in octets.
func TestAckMarksAndLosses(t *testing.T) {
	s := &scripted{rate: 100e9}
	cfg := dcqcn(CNP)
	cfg.RED = RED{Min: 1, Max: 1, Probability: 1}
	cfg.Control = func(uint64) Control { return s }
	cfg.AckEvery = 1
	cfg.Buffer.Queue = 50_000
	n, _ := star(cfg, 2, 100*sim.Gbps, µs)
	for _, h := range n.Hosts()[:2] {
		must(n.Flow(h, n.Hosts()[2], 0)).Post(200 * 1024)
	}
	n.Until(20 * ms)
	require.NoError(t, n.Check())
	marked := 0
	for _, a := range s.acks {
		if a.Marked {
			marked++
		}
	}
	require.Positive(t, n.Counts().LostData)
	require.EqualValues(t, (n.Counts().Packets-400)*1024, s.lost, "all retransmitted packets")
	require.Positive(t, marked)
	require.LessOrEqual(t, marked, int(n.Counts().Marked))
}
