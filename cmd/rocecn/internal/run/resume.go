package run

import (
	"math"
	"time"

	"github.com/rocecn/rocecn/node/reaction"
)

// A resumer limits the rates of flows after stops. A stop takes effect on packets that are given to the port after it;
// qdisc fq keeps each at least until the stop ends. Without a limit all of them would leave at that time, from all
// stopped flows together, also if the stop is extended meanwhile. So during a stop, packets are spaced at half the rate
// at which the flow has sent on average since the stop before. After the stop the limit doubles in each duration of the
// stop, up to the rate of the order.
type resumer struct {
	line  uint64 // rate of the port in bits a second, which sets no limit
	flows map[reaction.FlowID]*resumingFlow
	ramps int // flows with a limit
}

// A resumingFlow is a flow with an order.
type resumingFlow struct {
	order  reaction.Order
	since  time.Time     // begin of the last stop, or of the first order
	octets uint64        // octets given to the port since then
	until  time.Time     // end of the last stop
	pause  time.Duration // duration of the last stop
	rate   uint64        // limit at the end of the last stop in bits a second; 0: no limit
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
		f = &resumingFlow{since: now}
		r.flows[o.Flow] = f
	}
	f.order = o
	switch {
	case o.Stop > 0 && now.Before(f.until): // extended
		f.until, f.pause = now.Add(o.Stop), max(f.pause, o.Stop)
	case o.Stop > 0:
		if f.rate == 0 {
			r.ramps++
		}
		f.rate = max(f.averageRate(r.line, now)/2, r.line/maxSlowdown, 1)
		f.since, f.octets, f.until, f.pause = now, 0, now.Add(o.Stop), o.Stop
	case now.Before(f.until): // ended early
		f.until = now
	}
	return f
}

// maxSlowdown limits the time that packets wait after a stop: the limit is at least this part of the line rate.
const maxSlowdown = 64

// averageRate returns the rate at which a flow was sent since its last stop, at most the line rate. Without any octets
// it is the line rate, because packets are not counted before the first order.
func (f *resumingFlow) averageRate(line uint64, now time.Time) uint64 {
	seconds := now.Sub(f.since).Seconds()
	if f.octets == 0 || seconds <= 0 {
		return line
	}
	return uint64(min(float64(line), 8*float64(f.octets)/seconds))
}

// countOctets counts octets that a flow gave to the port.
func (r *resumer) countOctets(flow reaction.FlowID, octets uint64) {
	if f := r.flows[flow]; f != nil {
		f.octets += octets
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

// limitAt returns the limit of a flow after its last stop.
func (r *resumer) limitAt(f *resumingFlow, now time.Time) uint64 {
	after := now.Sub(f.until)
	if after <= 0 {
		return f.rate
	}
	doubled := math.Exp2(min(float64(after)/float64(f.pause), 64))
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
