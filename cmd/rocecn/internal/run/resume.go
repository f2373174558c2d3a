package run

import (
	"math"
	"time"

	"github.com/rocecn/rocecn/node/reaction"
)

// A resumer limits the rates of flows after stops. A stop takes effect on packets that are given to the port after it;
// qdisc fq keeps each at least until the stop ends. Without a limit all of them would leave at that time, from all
// stopped flows together, also if the stop is extended meanwhile. So a stop halves the limit that is in force, or the
// rate at which the flow sent since the stop before if that is lower. The limit then doubles in each eight durations of
// the stop, up to the rate of the order.
//
// Only the highest rate since the stop before counts, not the average: the host may not have sent for a while for other
// reasons, and then each stop would reduce the rate further.
type resumer struct {
	line  uint64 // rate of the port in bits a second, which sets no limit
	flows map[reaction.FlowID]*resumingFlow
	ramps int // flows with a limit
}

// A resumingFlow is a flow with an order.
type resumingFlow struct {
	order reaction.Order
	sent  uint64        // highest rate since the last stop at which the port got octets, in bits a second; 0: unknown
	until time.Time     // end of the last stop
	pause time.Duration // duration of the last stop
	rate  uint64        // limit at the end of the last stop in bits a second; 0: no limit
}

func newResumer(line uint64) *resumer {
	return &resumer{line: line, flows: map[reaction.FlowID]*resumingFlow{}}
}

// setOrder records the order of a flow.
func (r *resumer) setOrder(o reaction.Order, now time.Time) *resumingFlow {
	f := r.flows[o.Flow]
	if o.Gone {
		if f != nil && f.rate > 0 {
			r.ramps--
		}
		delete(r.flows, o.Flow)
		return nil
	}
	if f == nil {
		f = &resumingFlow{}
		r.flows[o.Flow] = f
	}
	f.order = o
	switch {
	case o.Stop > 0 && now.Before(f.until): // extended
		f.until, f.pause = now.Add(o.Stop), max(f.pause, o.Stop)
	case o.Stop > 0:
		limit := r.limitAt(f, now)
		if f.sent > 0 {
			limit = min(limit, f.sent)
		}
		if f.rate == 0 {
			r.ramps++
		}
		f.rate = max(limit/2, r.line/maxSlowdown, 1)
		f.sent, f.until, f.pause = 0, now.Add(o.Stop), o.Stop
	case now.Before(f.until): // ended early
		f.until = now
	}
	return f
}

const (
	// maxSlowdown limits the time that packets wait after a stop: the limit is at least this part of the line rate.
	maxSlowdown = 64
	// rampTime is the time in which the limit doubles, in durations of the stop.
	rampTime = 8
)

// countOctets counts octets that a flow gave to the port in a time. A time of more than two counting intervals is
// ignored, because this process did not run, and the flow may have sent in a part of it.
func (r *resumer) countOctets(flow reaction.FlowID, octets uint64, in time.Duration) {
	if f := r.flows[flow]; f != nil && in > 0 && in <= 2*countingInterval {
		f.sent = max(f.sent, uint64(min(float64(r.line), 8*float64(octets)/in.Seconds())))
	}
}

// rateAt returns the rate at which packets of a flow are spaced, 0 for no limit.
func (r *resumer) rateAt(f *resumingFlow, now time.Time) uint64 {
	rate := f.order.Rate
	if f.rate > 0 {
		return min(rate, r.limitAt(f, now))
	}
	if rate == r.line {
		return 0
	}
	return rate
}

// limitAt returns the limit of a flow, the line rate if it has none.
func (r *resumer) limitAt(f *resumingFlow, now time.Time) uint64 {
	if f.rate == 0 {
		return r.line
	}
	after := now.Sub(f.until)
	if after <= 0 {
		return f.rate
	}
	doubled := math.Exp2(min(float64(after)/float64(rampTime*f.pause), 64))
	return uint64(min(float64(r.line), float64(f.rate)*doubled))
}

// finish removes the limit of a flow if it has reached the line rate.
func (r *resumer) finish(f *resumingFlow, now time.Time) bool {
	if f.rate == 0 || r.limitAt(f, now) < r.line {
		return false
	}
	f.rate = 0
	r.ramps--
	return true
}
