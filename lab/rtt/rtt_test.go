package rtt

import (
	"testing"
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/stretchr/testify/require"
)

const us = time.Microsecond

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// By hand, with packets of 1,000 octets on the wire at 10 Gbit/s and a target of 40 µs: 50 packets.
func TestSwiftStepByStep(t *testing.T) {
	s := NewSwift(DefaultSwift(10e9, 900, 1000, 40*us))
	require.EqualValues(t, 50_000, s.Window())
	require.EqualValues(t, 10e9, s.Rate())

	s.Acked(&lab.Ack{RTT: 30 * us, Octets: 9000}, start) // ten packets: 50 + 10/50
	require.InDelta(t, 50.2, s.cwnd, 1e-12)
	s.Acked(&lab.Ack{RTT: 50 * us, Octets: 900}, start.Add(us)) // 0.8·10/50 less
	require.InDelta(t, 50.2*0.84, s.cwnd, 1e-12)
	s.Acked(&lab.Ack{RTT: 50 * us, Octets: 900}, start.Add(50*us)) // 49 µs after the decrease
	require.InDelta(t, 50.2*0.84, s.cwnd, 1e-12)
	s.Acked(&lab.Ack{RTT: 400 * us, Octets: 900}, start.Add(51*us)) // 0.72 less would be more than max_mdf
	require.InDelta(t, 50.2*0.84*0.5, s.cwnd, 1e-12)
	s.Lost(900, start.Add(60*us))
	require.InDelta(t, 50.2*0.84*0.5, s.cwnd, 1e-12, "within a round trip")
	s.Lost(900, start.Add(451*us))
	require.InDelta(t, 50.2*0.84*0.25, s.cwnd, 1e-12)
	require.EqualValues(t, 10_000, s.Window(), "10.542 packets")

	s.cwnd, s.rtt = 0.5, 40*us
	require.EqualValues(t, 1000, s.Window())
	require.InDelta(t, 100e6, s.Rate(), 1, "a packet in 80 µs")
	s.Acked(&lab.Ack{RTT: 30 * us, Octets: 900}, start.Add(500*us))
	require.InDelta(t, 1.5, s.cwnd, 1e-12, "a whole AI for a packet")
}

// The scaled target is BaseTarget + FSRange at FSMin, BaseTarget at FSMax, and between them α/√cwnd + β: with FSMin 1,
// FSMax 100 and FSRange 90 µs α is 100 µs and β −10 µs.
func TestSwiftTarget(t *testing.T) {
	cfg := DefaultSwift(10e9, 900, 1000, 40*us)
	cfg.FSRange, cfg.FSMin, cfg.FSMax = 90*us, 1, 100
	s := NewSwift(cfg)
	for _, c := range []struct {
		name string
		cwnd float64
		want time.Duration
	}{
		{"below FSMin", 0.1, 130 * us}, {"FSMin", 1, 130 * us}, {"4 packets", 4, 80 * us}, {"25 packets", 25, 50 * us},
		{"FSMax", 100, 40 * us}, {"above FSMax", 1000, 40 * us},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.InDelta(t, c.want, s.Target(c.cwnd), 2)
		})
	}
}

// By hand, with T_low 50, T_high 500, a smallest round trip of 20 µs, weight 0.5 and β 0.8.
func TestTimelyStepByStep(t *testing.T) {
	cfg := DefaultTimely(10e9, 20*us)
	cfg.Alpha, cfg.First = 0.5, 1e9
	c := NewTimely(cfg)
	number := uint64(0)
	ack := func(trip time.Duration) float64 {
		number++
		c.Acked(&lab.Ack{RTT: trip, Number: number, Next: number}, start)
		return c.rate / 1e6
	}
	require.InDelta(t, 1000, ack(100*us), 1e-9, "the first one has no difference")
	require.InDelta(t, 1000*(1-0.8*0.25), ack(110*us), 1e-9, "half of 10 µs is a gradient of 0.25")
	require.InDelta(t, 810, ack(60*us), 1e-9, "a falling round trip adds δ")
	require.InDelta(t, 820, ack(40*us), 1e-9, "so does one below T_low")
	require.InDelta(t, 820*(1-0.8*0.5), ack(1000*us), 1e-9, "above T_high the gradient does not count")
	for i := range 5 {
		require.InDelta(t, 492+10*float64(i+1), ack(40*us), 1e-9)
	}
	require.InDelta(t, 542+50, ack(40*us), 1e-9, "the sixth step is five times as large")
	c.Acked(&lab.Ack{RTT: 1000 * us, Number: number, Next: number + 5}, start)
	require.InDelta(t, 592, c.rate/1e6, 1e-9, "in the same round trip")
	require.EqualValues(t, 592e6, c.Rate())

	// Patched: with a gradient of 0 the weight is 1/2.
	cfg.Reference, cfg.Beta = 100*us, 0.008
	c, number = NewTimely(cfg), 0
	ack(150 * us)
	require.InDelta(t, 1000*(1-0.008*0.5*0.5)+5, ack(150*us), 1e-9)
}
