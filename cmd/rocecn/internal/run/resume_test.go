package run

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/node/reaction"
)

// A stop halves the limit in force, or the highest rate since the stop before. The limit doubles in each eight
// durations of the stop.
func TestResume(t *testing.T) {
	const line = 8_000_000
	flow := reaction.FlowID{Dst: netip.MustParseAddr("2001:db8::2"), DestQP: 17}
	start := time.Unix(1e9, 0)
	type step struct {
		name   string
		after  time.Duration // since start
		stop   time.Duration // of a new order, -1: none
		octets uint64        // given to the port in the last 10 ms
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
			{"doubled", 900 * time.Millisecond, -1, 0, line},
			{"stop again", time.Second, 100 * time.Millisecond, 0, line / 2},
			{"its end again", 1100 * time.Millisecond, -1, 0, line / 2},
			{"stop during the rise", 1500 * time.Millisecond, 100 * time.Millisecond, 0, 2_828_427}, // line/2·√2/2
			{"stop after it", 1600 * time.Millisecond, 100 * time.Millisecond, 0, 1_414_213},
		}},
		{"1 Mbit/s at most", line, []step{
			{"order", 0, 0, 0, 0},
			{"counted", 10 * time.Millisecond, -1, 1_250, 0},
			{"a pause of the host", 990 * time.Millisecond, -1, 1, 0},
			{"stop", time.Second, 100 * time.Millisecond, 0, 500_000},
			{"extended", 1050 * time.Millisecond, 100 * time.Millisecond, 10_000, 500_000},
			{"end", 1150 * time.Millisecond, -1, 0, 500_000},
			{"doubled", 1950 * time.Millisecond, -1, 0, 1_000_000},
			{"doubled twice", 2750 * time.Millisecond, -1, 0, 2_000_000},
			{"stop again", 2750 * time.Millisecond, 100 * time.Millisecond, 1_250, 1_000_000}, // 8 Mbit/s in the first
			{"resumed early", 2800 * time.Millisecond, 0, 0, 1_000_000},
			{"doubled after it", 3600 * time.Millisecond, -1, 0, 2_000_000},
		}},
		{"hardly any traffic", line, []step{
			{"order", 0, 0, 1, 0}, {"counted", time.Hour, -1, 1, 0},
			{"stop", time.Hour, time.Millisecond, 0, line / maxSlowdown},
		}},
		{"slower order", line / 16, []step{
			{"stop", 0, 100 * time.Millisecond, 0, line / 16}, {"later", time.Second, -1, 0, line / 16},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newResumer(line)
			for _, s := range c.steps {
				now := start.Add(s.after)
				r.countOctets(flow, s.octets, countingInterval)
				r.countOctets(flow, 1, time.Minute) // is ignored
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
