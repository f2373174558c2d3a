package rtt_test

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node"
)

// A halving is a new algorithm for congestion control: it halves the rate at a notification or a loss, at most once in
// 20 µs, and adds a step for each acknowledgement without a mark.
type halving struct {
	lab.ControlBase
	line, rate uint64
	cut        time.Time
}

// Rate implements [lab.Control].
func (h *halving) Rate() uint64 { return h.rate }

// Acked implements [lab.Control].
func (h *halving) Acked(a *lab.Ack, _ time.Time) {
	if !a.Marked {
		h.rate = min(h.rate+10e6, h.line)
	}
}

// Lost implements [lab.Control].
func (h *halving) Lost(_ uint64, now time.Time) { h.halve(now) }

// Notified implements [lab.Control].
func (h *halving) Notified(_ *node.Decision, now time.Time) { h.halve(now) }

func (h *halving) halve(now time.Time) {
	if now.Sub(h.cut) >= 20*time.Microsecond {
		h.rate, h.cut = max(h.rate/2, 100e6), now
	}
}

// The laboratory runs an algorithm that implements lab.Control. Here eight flows share a port of 40 Gbit/s, and the
// switch sends Fast CNPs.
func Example() {
	n, err := lab.New(lab.Config{
		Seed: 1, Variant: lab.FastCNP, RED: lab.RED{Min: 5000, Max: 200_000, Probability: 0.01},
		Interval: 20 * time.Microsecond, AckEvery: 4, DataPriority: 3, AckPriority: 3, NotificationPriority: 6,
		Control: func(line uint64) lab.Control { return &halving{line: line, rate: line} },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := n.Switch()
	for range 9 {
		n.Link(n.Host(), s, 40*sim.Gbps, sim.Microsecond)
	}
	for i, h := range n.Hosts()[:8] {
		f, err := n.Flow(h, n.Hosts()[8], 0)
		if err != nil {
			fmt.Println(err)
			return
		}
		n.RunAt(sim.Time(i)*sim.Microsecond, f.Endless)
	}
	out := s.Ports()[8]
	n.Until(10 * sim.Millisecond)
	before := out.Sent()
	n.Until(20 * sim.Millisecond)
	fmt.Printf("use %.0f %%\n", float64(out.Sent()-before)/float64(out.Rate().Octets(10*sim.Millisecond))*100)
	fmt.Println(n.Check())
	// Output:
	// use 91 %
	// <nil>
}
