package rtt

import (
	"time"

	"github.com/rocecn/rocecn/lab"
)

// TimelyConfig has the parameters of TIMELY, with their names in the paper. Rates are in bits a second.
type TimelyConfig struct {
	Line, Min uint64        // rate of the port, lowest rate
	First     uint64        // rate of a new flow
	MinRTT    time.Duration // round trip of the idle network, above 0
	Low, High time.Duration // T_low, T_high
	Alpha     float64       // weight of a new difference of round trips
	Beta      float64       // β
	Delta     uint64        // δ, the additive step
	HAI       int           // number of steps after which five times Delta is added

	// Reference is the round trip of patched TIMELY (Zhu et al., "ECN or Delay", CoNEXT 2016), which has a fixed
	// point: RTT = Reference·(1 + N·δ/(β·C)). 0 is TIMELY as published, which has none.
	Reference time.Duration
}

// DefaultTimely returns the parameters that the authors of HPCC compare with
// (alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc), with the δ of the paper.
func DefaultTimely(line uint64, minRTT time.Duration) TimelyConfig {
	return TimelyConfig{
		Line: line, Min: min(line, 100e6), First: line, MinRTT: minRTT,
		Low: 50 * time.Microsecond, High: 500 * time.Microsecond,
		Alpha: 0.875, Beta: 0.8, Delta: 10e6, HAI: 5,
	}
}

// A Timely is the reaction point of one flow: TIMELY of Mittal et al., "TIMELY: RTT-based Congestion Control for the
// Datacenter", SIGCOMM 2015, Algorithm 1, with one update in a round trip.
type Timely struct {
	lab.ControlBase
	cfg   TimelyConfig
	rate  float64
	last  time.Duration // round trip at the latest update
	diff  float64       // smoothed difference of round trips, nanoseconds
	steps int           // additive steps since the latest decrease
	until uint64        // first packet of the next round trip
	known bool          // there was an acknowledgement
}

// NewTimely returns the reaction point of a new flow.
func NewTimely(cfg TimelyConfig) *Timely { return &Timely{cfg: cfg, rate: float64(cfg.First)} }

// Rate implements [lab.Control].
func (t *Timely) Rate() uint64 { return uint64(t.rate) }

// Acked implements [lab.Control].
func (t *Timely) Acked(a *lab.Ack, _ time.Time) {
	if t.known && a.Number <= t.until {
		return
	}
	t.until = a.Next
	was := t.last
	t.last = a.RTT
	if !t.known {
		t.known = true
		return
	}
	c := &t.cfg
	t.diff = (1-c.Alpha)*t.diff + c.Alpha*float64(a.RTT-was)
	gradient := t.diff / float64(c.MinRTT)
	switch {
	case a.RTT < c.Low:
		t.increaseRate()
	case a.RTT > c.High:
		t.decreaseRate(1 - c.Beta*(1-float64(c.High)/float64(a.RTT)))
	case c.Reference > 0: // the weight of the round trip rises from 0 to 1 with the gradient, from −1/4 to 1/4
		weight := min(max(2*gradient+0.5, 0), 1)
		t.decreaseRate(1 - c.Beta*weight*(float64(a.RTT)/float64(c.Reference)-1))
		t.rate += float64(c.Delta) * (1 - weight)
	case gradient <= 0:
		t.increaseRate()
	default:
		t.decreaseRate(max(1-c.Beta*gradient, 0))
	}
	t.rate = min(max(t.rate, float64(c.Min)), float64(c.Line))
}

func (t *Timely) increaseRate() {
	t.steps++
	step := float64(t.cfg.Delta)
	if t.steps > t.cfg.HAI {
		step *= 5
	}
	t.rate += step
}

func (t *Timely) decreaseRate(factor float64) {
	t.steps = 0
	t.rate *= factor
}
