package run

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/node/reaction"
)

// During and after a stop, packets are spaced at half the average rate since the stop before, and the limit doubles in
// each duration of the stop.
func TestResume(t *testing.T) {
	const line = 8_000_000
	flow := reaction.FlowID{Dst: netip.MustParseAddr("2001:db8::2"), DestQP: 17}
	start := time.Unix(1e9, 0)
	type step struct {
		name   string
		after  time.Duration // since start
		stop   time.Duration // of a new order, -1: none
		octets uint64        // given to the port since the step before
		rate   uint64        // that the kernel gets
	}
	for _, c := range []struct {
		name  string
		order uint64 // rate of the orders
		steps []step
	}{
		{"without a stop", line, []step{{"order", 0, 0, 0, 0}, {"later", time.Hour, 0, 1e6, 0}}},
		{"slow without a stop", line / 4, []step{{"order", 0, 0, 0, line / 4}}},
		{"nothing counted", line, []step{
			{"stop", 0, 100 * time.Millisecond, 0, line / 2},
			{"its end", 100 * time.Millisecond, -1, 0, line / 2},
			{"doubled", 200 * time.Millisecond, -1, 0, line},
		}},
		{"average of 1 Mbit/s", line, []step{
			{"order", 0, 0, 0, 0},
			{"stop", time.Second, 100 * time.Millisecond, 125_000, 500_000},
			{"extended", 1050 * time.Millisecond, 100 * time.Millisecond, 10_000, 500_000},
			{"end", 1150 * time.Millisecond, -1, 0, 500_000},
			{"doubled", 1250 * time.Millisecond, -1, 0, 1_000_000},
			{"doubled twice", 1350 * time.Millisecond, -1, 0, 2_000_000},
			{"stop again", 1500 * time.Millisecond, 100 * time.Millisecond, 52_500, 500_000}, // 62,500 octets in 0.5 s
			{"resumed early", 1550 * time.Millisecond, 0, 0, 500_000},
			{"doubled after it", 1650 * time.Millisecond, -1, 0, 1_000_000},
		}},
		{"hardly any traffic", line, []step{
			{"order", 0, 0, 1, 0}, {"stop", time.Hour, time.Millisecond, 1, line / maxSlowdown},
		}},
		{"slower order", line / 16, []step{
			{"stop", 0, 100 * time.Millisecond, 0, line / 16}, {"later", time.Second, -1, 0, line / 16},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newResumer(line)
			for _, s := range c.steps {
				now := start.Add(s.after)
				r.countOctets(flow, s.octets)
				f := r.flows[flow]
				if s.stop >= 0 {
					f = r.setOrder(reaction.Order{Flow: flow, Rate: c.order, Stop: s.stop}, now)
				}
				require.InDelta(t, float64(s.rate), float64(r.rateAt(f, now)), 1, s.name)
			}
			f, limits := r.flows[flow], r.ramps
			require.Equal(t, limits > 0, f.rate > 0)
			require.False(t, r.finish(f, f.until))
			require.Equal(t, limits > 0, r.finish(f, start.Add(2*time.Hour)))
			require.Zero(t, r.ramps)
			require.Nil(t, r.setOrder(reaction.Order{Flow: flow, Gone: true}, start))
			require.Empty(t, r.flows)
			require.Zero(t, r.ramps)
		})
	}
}
