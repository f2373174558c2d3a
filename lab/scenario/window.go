package scenario

import (
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
)

// Steady has the figures that are measured over a time after the warmup.
type Steady struct {
	Queue    lab.Histogram // octets of the deepest data queue
	Use      float64       // of the link of the deepest data queue, from 0 to 1
	Busiest  float64       // of the link with the highest use, from 0 to 1
	Jain     float64       // Jain's index of the flows that existed from the start; 0 without any
	Goodput  float64       // Gbit/s of data delivered to all
	Goodputs []float64     // Gbit/s by traffic
}

// A window is a time in which a run is measured.
type window struct {
	from, to  sim.Time
	meters    []*lab.Meter // by port
	sent      []uint64     // octets on the wire, by port
	delivered []uint64     // octets of data, by flow
}

// startWindow starts a measurement. [window.stopWindow] ends it.
func (r *run) startWindow() *window {
	w := &window{from: r.net.Sim.Now()}
	for _, p := range r.ports {
		w.meters = append(w.meters, p.Meter())
		w.sent = append(w.sent, p.Sent())
	}
	for _, f := range r.net.Flows() {
		w.delivered = append(w.delivered, f.Octets())
	}
	r.halves = append(r.halves, w)
	return w
}

func (w *window) stopWindow(r *run) {
	w.to = r.net.Sim.Now()
	for i, p := range r.ports {
		p.Stop()
		w.sent[i] = p.Sent() - w.sent[i]
	}
	for i, f := range r.net.Flows() {
		if i == len(w.delivered) { // the flow began in this window
			w.delivered = append(w.delivered, 0)
		}
		w.delivered[i] = f.Octets() - w.delivered[i]
	}
}

// joinWindows returns one window for two that follow each other.
func joinWindows(a, b *window) *window {
	j := &window{from: a.from, to: b.to, delivered: append([]uint64(nil), b.delivered...)}
	for i := range a.meters {
		m := &lab.Meter{Queue: a.meters[i].Queue.Join(&b.meters[i].Queue)}
		j.meters = append(j.meters, m)
		j.sent = append(j.sent, a.sent[i]+b.sent[i])
	}
	for i, octets := range a.delivered {
		j.delivered[i] += octets
	}
	return j
}

// measureSteady sets the figures of the time after the warmup, and of its halves. deepest is the index of the port with
// the deepest data queue.
func (r *run) measureSteady(deepest int) {
	for i, w := range r.halves {
		r.result.Halves[i] = r.steadyOf(w, deepest)
	}
	switch len(r.halves) {
	case 1:
		r.result.Steady = r.result.Halves[0]
	case 2:
		r.result.Steady = r.steadyOf(joinWindows(r.halves[0], r.halves[1]), deepest)
	}
}

func (r *run) steadyOf(w *window, deepest int) (s Steady) {
	length := w.to - w.from
	if length <= 0 {
		return s
	}
	for i, p := range r.ports {
		use := float64(w.sent[i]) / float64(max(p.Rate().Octets(length), 1))
		s.Busiest = max(s.Busiest, use)
		if i == deepest {
			s.Use, s.Queue = use, w.meters[i].Queue
		}
	}
	var shares []float64
	byTraffic := make([]float64, len(r.ends))
	number := 0
	for i, octets := range w.delivered {
		delivered := float64(octets)
		if i < r.fixed {
			shares = append(shares, delivered)
			for i >= r.ends[number] {
				number++
			}
		} else {
			number = r.later[i-r.fixed]
		}
		s.Goodput += delivered * 8 / 1e9 / length.Seconds()
		byTraffic[number] += delivered
	}
	for _, sum := range byTraffic {
		s.Goodputs = append(s.Goodputs, sum*8/1e9/length.Seconds())
	}
	if len(shares) > 0 {
		s.Jain = lab.Jain(shares)
	}
	return s
}
