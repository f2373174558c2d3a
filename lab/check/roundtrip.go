package check

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/rtt"
	"github.com/rocecn/rocecn/lab/sim"
)

const (
	tripPayload = 1024
	tripWire    = tripPayload + header + gap
)

// measureTrips runs an incast with reaction points that follow the round trip, and returns its steady state between two
// times, and the mean round trip in µs that its queue gives.
func (t *trial) measureTrips(flows int, rate sim.Rate, from, to sim.Time, control func(line uint64) lab.Control) (
	s steady, trip float64, err error) {
	cfg := quiet()
	cfg.Control = control
	s, err = t.measureSteady(cfg, flows, rate, µs, from, to)
	if err != nil {
		return s, 0, err
	}
	// An idle round trip, and the frames that wait, each of which takes its time on the wire.
	n, _ := t.star(quiet(), flows, rate, µs)
	idle := n.Alone(n.Hosts()[0], n.Hosts()[flows], tripPayload)
	waits := s.queue.Mean() / (tripPayload + header) * float64(rate.Time(tripWire))
	return s, (float64(idle) + waits) / float64(µs), t.runToEnd(n)
}

// A11: Swift keeps the round trip at its target. A window grows by AI packets in a round trip below the target, and in
// the first one above it shrinks by the share of the excess: so the round trip of N flows exceeds the target by at most
// the time of N·AI packets, and the next one is as far below it. With flow scaling the target depends on the window,
// which is the share of the flow in the packets of a round trip: N·cwnd = C·RTT.
func checkSwift(t *trial) (rows []Row, err error) {
	const rate = 100 * sim.Gbps
	const target = 25 * time.Microsecond
	for _, c := range []struct {
		flows  int
		scaled time.Duration
	}{{2, 0}, {4, 0}, {16, 0}, {64, 0}, {8, 100 * time.Microsecond}, {32, 100 * time.Microsecond}} {
		cfg := rtt.DefaultSwift(uint64(rate), tripPayload, tripWire, target)
		cfg.FSRange = c.scaled
		s, trip, err := t.measureTrips(c.flows, rate, 10*ms, 30*ms,
			func(uint64) lab.Control { return rtt.NewSwift(cfg) })
		if err != nil {
			return rows, err
		}
		packet := float64(rate.Time(tripWire)) / float64(µs)
		want := tripOfSwift(rtt.NewSwift(cfg), c.flows, packet)
		off := max(float64(c.flows), 2) * packet
		name := fmt.Sprintf("%d flows, flow scaling %v: ", c.flows, c.scaled)
		rows = append(rows, Between(name+"round trip", "µs", want, want-off, want+off, trip),
			Between(name+"use of the link", "%", 100, 99.5, 100.01, s.use*100),
			Between(name+"Jain's index", "", 1, 0.99, 1, s.jain))
	}
	return rows, nil
}

// tripOfSwift returns the round trip in µs at which N flows with equal windows have it as their target, by bisection:
// the target falls with the window, and the window rises with the round trip.
func tripOfSwift(s *rtt.Swift, flows int, packet float64) float64 {
	low, high := 1., 1e4
	for range 60 {
		trip := (low + high) / 2
		if target := s.Target(trip / packet / float64(flows)); float64(target)/1e3 > trip {
			low = trip
		} else {
			high = trip
		}
	}
	return (low + high) / 2
}

// A12: patched TIMELY has a fixed point at RTT = Reference·(1 + N·δ/(β·C)): with a gradient of 0 the weight is 1/2, so
// δ/2 = β/2·R·(RTT/Reference − 1), with R = C/N. Its β is 0.008, so flows begin with their share. TIMELY as published
// has no fixed point.
func checkTimely(t *trial) (rows []Row, err error) {
	const rate = 10 * sim.Gbps
	for _, c := range []struct {
		flows int
		delta uint64
	}{{2, 10e6}, {4, 5e6}, {8, 2e6}, {4, 2e6}} {
		cfg := rtt.DefaultTimely(uint64(rate), 20*time.Microsecond)
		cfg.Reference, cfg.Delta, cfg.Beta = 100*time.Microsecond, c.delta, 0.008
		cfg.First = uint64(rate) / uint64(c.flows)
		s, trip, err := t.measureTrips(c.flows, rate, 200*ms, 400*ms,
			func(uint64) lab.Control { return rtt.NewTimely(cfg) })
		if err != nil {
			return rows, err
		}
		want := 100 * (1 + float64(c.flows)*float64(c.delta)/(cfg.Beta*float64(rate)))
		name := fmt.Sprintf("patched, %d flows, δ %d Mbit/s: ", c.flows, c.delta/1e6)
		rows = append(rows, rowWithin(name+"round trip", "µs", want, 0.01, trip),
			Between(name+"use of the link", "%", 100, 98, 100.01, s.use*100),
			Between(name+"Jain's index", "", 1, 0.95, 1, s.jain))
	}
	return rows, nil
}
