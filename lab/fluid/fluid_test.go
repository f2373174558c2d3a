package fluid

import (
	"fmt"
	"math"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// The fixed points that the model's authors' equations have, as others solved
// them, at 40 Gbit/s.
func TestFixed(t *testing.T) {
	for _, c := range []struct {
		flows                 int
		p, alpha, queue, cnps float64
	}{
		{2, 7.8e-4, 0.101, 20.2e3, 1852},
		{4, 1.89e-3, 0.122, 41.8e3, 2228},
		{8, 4.6e-3, 0.145, 93.8e3, 2658},
		{10, 6.0e-3, 0.153, 122.6e3, 2807},
	} {
		m := Paper(c.flows)
		at := m.Fixed()
		require.True(t, at.OnRamp)
		require.InEpsilon(t, c.p, at.P, 0.012)
		require.InEpsilon(t, c.alpha, at.Alpha, 0.005)
		require.InEpsilon(t, c.queue, at.Queue, 0.003)
		require.InEpsilon(t, c.cnps, at.CNPs, 0.0005)
	}
	m := Paper(16)
	require.False(t, m.Fixed().OnRamp, "from 16 flows on the ramp is too short")
	require.EqualValues(t, 200e3, m.Fixed().Queue)
}

// At 100 Gbit/s with thresholds of 100 and 400 KB and 20 %.
func TestFixedAt100G(t *testing.T) {
	for _, c := range []struct {
		flows int
		queue float64
	}{{2, 100.4e3}, {8, 102.1e3}, {16, 105.1e3}, {32, 112.3e3}, {64, 129.2e3}} {
		t.Run(fmt.Sprint(c.flows), func(t *testing.T) {
			m := Paper(c.flows)
			m.Rate, m.KMin, m.KMax, m.PMax = 100e9, 100e3, 400e3, 0.2
			require.InEpsilon(t, c.queue, m.Fixed().Queue, 0.001, "%d flows", c.flows)
		})
	}
}

// At the fixed point nothing moves.
func TestFixedIsFixed(t *testing.T) {
	for _, flows := range []int{1, 2, 5, 10} {
		m := Paper(flows)
		at := m.Fixed()
		r := m.packets(m.Rate) / m.Flows
		bytes, timer := perPacket(at.P, m.ByteCounter/m.Packet), perPacket(at.P, m.Timer*r)
		x := state{at.Alpha, r + at.Alpha*at.CNPs/(bytes+timer), r}
		d := m.flowDerivative(x, r, at.P)
		require.InDelta(t, 0, d.alpha, 1e-9)
		require.InDelta(t, 0, d.rate/r, 1e-9)
		require.InDelta(t, 0, d.target/r, 1e-6)
	}
}

// Computed as the authors did, all their figures come out.
func TestPublished(t *testing.T) {
	wiretest.Alone(t)
	wrong := 0
	require.Len(t, Figures, 30)
	for _, c := range Figures {
		m := c.Params()
		got := m.Published(c.Delay)
		require.InDelta(t, c.Margin, got, 0.6, "%+v", c)
		require.Equal(t, c.Margin > 0, got > 0, "%+v", c)

		// Without the simplifications the margin has another sign at three points.
		if exact := m.Margin(c.Delay); exact > 0 != (got > 0) {
			wrong++
			require.Less(t, math.Abs(exact), 6., "%+v", c)
		}
	}
	require.Equal(t, 3, wrong)
}

// Values that others have read off the same figures at 100 Gbit/s.
func TestPublishedAt100G(t *testing.T) {
	for _, c := range []struct {
		flows int
		want  float64
	}{{2, -57}, {10, -33}} {
		t.Run(fmt.Sprint(c.flows), func(t *testing.T) {
			m := Paper(c.flows)
			m.Rate = 100e9
			require.InDelta(t, c.want, m.Published(100e-6), 0.6)
		})
	}
}

// A longer loop is never more stable.
func TestMarginFalls(t *testing.T) {
	for _, flows := range []int{2, 10, 64} {
		m, before := Paper(flows), 180.
		for delay := 0.; delay < 200e-6; delay += 20e-6 {
			now := m.Margin(delay)
			require.Less(t, now, before)
			before = now
		}
	}
}

// settle runs equal flows for 300 ms, and returns the means of the last 100 ms.
func settle(flows int, delay float64, extended bool) (queue, deviation, use float64) {
	m := Paper(flows)
	n, squares := 0., 0.
	m.Run([]Class{{Flows: float64(flows)}}, extended, delay, 1e-6, 0.3, func(x Moment) {
		if x.Time >= 0.2 {
			queue += x.Queue
			squares += x.Queue * x.Queue
			use += x.Use
			n++
		}
	})
	queue /= n
	return queue, math.Sqrt(max(squares/n-queue*queue, 0)), use / n
}

// Where the margin is positive the model comes to rest at the fixed point, and elsewhere it
// swings around it.
func TestRun(t *testing.T) {
	wiretest.Alone(t)
	for _, c := range []struct {
		flows    int
		delay    float64
		extended bool
		swings   bool
	}{
		{2, 1e-6, false, false}, {4, 4e-6, false, false}, {8, 4e-6, false, false}, {10, 4e-6, false, false},
		{10, 85e-6, false, true}, {64, 85e-6, true, false},
	} {
		queue, deviation, use := settle(c.flows, c.delay, c.extended)
		m := Paper(c.flows)
		require.Equal(t, c.swings, deviation > queue/2, "%+v: %v ± %v", c, queue, deviation)
		require.Equal(t, c.swings, m.Margin(c.delay) < 0, "%+v", c)
		if !c.swings && !c.extended {
			require.InEpsilon(t, m.Fixed().Queue, queue, 0.002)
			require.InEpsilon(t, 1, use, 1e-4)
		}
	}
	// Sixty-four flows in a loop of 85 µs rest on a ramp that goes on, and swing where
	// everything is marked above 200 KB.
	queue, deviation, use := settle(64, 85e-6, false)
	require.Greater(t, deviation, queue)
	require.InDelta(t, 0.866, use, 0.01)
	require.InEpsilon(t, 1.159e6, first(settle(64, 85e-6, true)), 0.01)
}

func first(x, _, _ float64) float64 { return x }

// A flow that starts later sends nothing before, and then comes to the same rate.
func TestRunClasses(t *testing.T) {
	wiretest.Alone(t)
	m := Paper(3)
	before, last := 0., Moment{}
	m.Run([]Class{{Flows: 2}, {Flows: 1, Start: 0.05}}, false, 4e-6, 1e-6, 0.25, func(x Moment) {
		if x.Time < 0.05 {
			before += x.Rates[1]
		}
		last = Moment{Time: x.Time, Queue: x.Queue, Use: x.Use, Rates: append(last.Rates[:0], x.Rates...)}
	})
	require.Zero(t, before)
	require.InEpsilon(t, 40e9/3, last.Rates[0], 0.01)
	require.InEpsilon(t, 40e9/3, last.Rates[1], 0.01)
	require.InEpsilon(t, m.Fixed().Queue, last.Queue, 0.01)
}

// Of gaps of k times 50 µs, ⌊k/1.1⌋ = k − ⌈k/11⌉ falls: with a CNP at one look in
// 10.8 that is 10.8 − 1 ÷ (1 − (1 − 1/10.8)¹¹) = 9.28.
func TestPolledAlpha(t *testing.T) {
	m := Paper(2)
	a := m.Fixed().CNPs * 50e-6
	require.InEpsilon(t, 10.8, 1/a, 0.001)
	require.InEpsilon(t, 1/(1+1/a-1/(1-math.Pow(1-a, 11))), m.PolledAlpha(), 1e-6)
	require.InDelta(t, 0.0973, m.PolledAlpha(), 0.0001)
}

// The bounds that the authors publish, in seconds.
func TestBound(t *testing.T) {
	for _, c := range []struct {
		flows int
		bound float64
	}{{2, 0.096901}, {4, 0.063592}, {10, 0.035894}, {16, 0.02692}, {20, 0.023562},
		{40, 0.015895}, {64, 0.012452}, {80, 0.011177}, {100, 0.010089}} {
		t.Run(fmt.Sprint(c.flows), func(t *testing.T) {
			m := Paper(c.flows)
			require.InDelta(t, c.bound, m.Bound(), 0.6e-6, "%d flows", c.flows)
			alpha := m.RestingAlpha()
			_, round := m.restingPoint()
			require.InDelta(t, alpha, m.nextAlpha(alpha, round), 1e-9)
		})
	}
}

// Flows of the same α come together within the bound. One with an α of 1 is cut so far that it
// does not: figures of the same recursion in another language.
func TestJoining(t *testing.T) {
	for _, c := range []struct {
		flows       int
		same, fresh float64
	}{{3, 0.0334422, 0.1004339}, {11, 0.0242127, 0.0654274}} {
		m := Paper(c.flows)
		require.InDelta(t, c.same, m.Joining(m.RestingAlpha()), 1e-6)
		require.InDelta(t, c.fresh, m.Joining(1), 1e-6)
		require.Less(t, c.same, m.Bound())
		require.Greater(t, c.fresh, m.Bound())
	}
}
