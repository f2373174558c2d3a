package lab

import (
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/stretchr/testify/require"
)

const (
	µs = sim.Microsecond
	ms = sim.Millisecond
)

func TestHistogram(t *testing.T) {
	var h Histogram
	for v := range uint64(100_000) {
		require.InEpsilon(t, float64(v)+1, float64(middle(bucket(v)))+1, 1./64)
		if v > 0 {
			require.GreaterOrEqual(t, bucket(v), bucket(v-1))
		}
		h.Add(v, 2)
	}
	require.InDelta(t, 49_999.5, h.Mean(), 1e-6)
	require.InEpsilon(t, 50_000, float64(h.Quantile(0.5)), 1./64)
	require.InEpsilon(t, 99_000, float64(h.Quantile(0.99)), 1./64)
	require.InEpsilon(t, 28_867.5, h.Deviation(), 0.001)
	require.Equal(t, uint64(99_999), h.Max())
	require.Equal(t, uint64(99_999), h.Quantile(1))
	require.Equal(t, uint64(200_000), h.Count())
	var none Histogram
	require.Zero(t, none.Mean()+none.Deviation()+float64(none.Quantile(0.5)))
	require.InDelta(t, 1, Jain([]float64{3, 3, 3}), 1e-12)
	require.InDelta(t, 1./3, Jain([]float64{0, 0, 3}), 1e-12)
}

// star joins hosts to a switch by links of 1 µs; the last host is the receiver.
func star(cfg Config, senders int, rate sim.Rate, delay sim.Time) (*Network, *Port) {
	n := New(cfg)
	s := n.Switch()
	var out *Port
	for range senders + 1 {
		_, out = n.Link(n.Host(), s, rate, delay)
	}
	return n, out
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func incast(cfg Config, senders int, rate sim.Rate, delay sim.Time) (*Network, *Port) {
	n, out := star(cfg, senders, rate, delay)
	jitter := sim.NewStream(cfg.Seed, "starts", 0)
	for i := range senders {
		f := must(n.Flow(n.Hosts()[i], n.Hosts()[senders], 0))
		n.At(sim.Time(jitter.Below(uint64(µs))), f.Endless)
	}
	return n, out
}

func dcqcn(v Variant) Config {
	return Config{
		Seed: 1, Variant: v, RED: RED{Min: 100_000, Max: 400_000, Probability: 0.2},
		Interval: 50 * time.Microsecond, AckEvery: 16, Timeout: 10 * ms,
		DataPriority: 3, AckPriority: 3, NotificationPriority: 6,
		ReceiverDelay: µs, SwitchDelay: µs, SenderDelay: µs,
		Reaction: reaction.Paper,
	}
}

// All variants run, add up, and use the link.
func TestIncast(t *testing.T) {
	for v := None; v <= Oracle; v++ {
		n, out := incast(dcqcn(v), 8, 100*sim.Gbps, µs)
		n.Until(5 * ms)
		require.NoError(t, n.Check())
		c := n.Counts()
		t.Logf("%v: %+v, most %d, sent %d, events %d, hops %d", v, c, out.Most(), out.Sent(), n.Sim.Events(), c.Hops)
	}
}

func TestNoAllocations(t *testing.T) {
	for _, v := range []Variant{CNP, FastCNP} {
		cfg := dcqcn(v)
		cfg.RED = RED{Min: 5000, Max: 200_000, Probability: 0.01}
		n, _ := incast(cfg, 4, 40*sim.Gbps, µs)
		n.Until(20 * ms)
		before := n.Counts()
		wiretest.NoAllocs(t, v.String(), func() { n.Until(n.Sim.Now() + 50*µs) })
		require.Greater(t, n.Counts().Notified, before.Notified)
	}
}

// A message that is alone takes as long as Alone says, to the picosecond.
func TestAlone(t *testing.T) {
	speeds := []sim.Rate{100e9, 40e9, 400e9, 10e9, 25e9}
	for _, octets := range []int64{1, 4, 1000, 1024, 1025, 2048, 5000, 100_001, 1_000_000} {
		for switches := 1; switches < len(speeds); switches++ {
			n := New(Config{Pipeline: 600 * sim.Nanosecond, AckEvery: 16, AckPriority: 6, DataPriority: 3})
			var at Node = n.Host()
			for i := range switches {
				next := n.Switch()
				n.Link(at, next, speeds[i], sim.Time(i)*µs)
				at = next
			}
			n.Link(at, n.Host(), speeds[switches], 3*µs)
			from, to := n.Hosts()[0], n.Hosts()[1]
			took := sim.Time(0)
			n.Done = func(_ *Flow, size int64, posted sim.Time) {
				require.Equal(t, octets, size)
				took = n.Sim.Now() - posted
			}
			must(n.Flow(from, to, 0)).Post(octets)
			n.Until(10 * ms)
			require.NoError(t, n.Check())
			require.Equal(t, n.Alone(from, to, octets), took, "%d octets, %d switches", octets, switches)
		}
	}
}
