package scenario

import (
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
)

// A piece of a collective counts as received when it is acknowledged, half a round trip later.

// rankCount returns the number of hosts in a ring.
func (t *Traffic) rankCount(top *Topology) int {
	if t.Order == "rails" {
		return top.Leaves
	}
	return top.hostCount()
}

// pieceCount returns the number of pieces that each host of a ring sends for the whole all-reduce.
func (t *Traffic) pieceCount(top *Topology) int { return 2 * (t.rankCount(top) - 1) }

// ringOrder returns, for each host, to which one it sends in its ring.
func (t *Traffic) ringOrder(n *lab.Network, number int, top *Topology) []int {
	hosts := len(n.Hosts())
	to, next := make([]int, hosts), 1
	switch t.Order {
	case "scattered":
		draws := n.Stream("ring", number)
		order := shuffleNumbers(hosts, &draws)
		for i, from := range order {
			to[from] = order[(i+1)%hosts]
		}
		return to
	case "rails":
		next = top.Hosts
	}
	for i := range to {
		to[i] = (i + next) % hosts
	}
	return to
}

// startRing starts an all-reduce: a host that has received a piece may send the next one.
func (t *Traffic) startRing(r *run, number int, top *Topology) error {
	hosts, to := r.net.Hosts(), t.ringOrder(r.net, number, top)
	piece := t.messageOctets(top)
	steps := t.Steps
	if steps == 0 {
		steps = t.pieceCount(top)
	}
	first := len(r.net.Flows())
	flows := make([]*lab.Flow, len(hosts))
	left := make([]int, len(hosts)) // pieces that each host has still to send
	for i := range hosts {
		f, err := r.net.Flow(hosts[i], hosts[to[i]], sim.Rate(t.Rate))
		if err != nil {
			return err
		}
		flows[i], left[i] = f, steps
	}
	post := func(i int) {
		left[i]--
		flows[i].Post(piece)
	}
	at := t.startTimes(r, number)
	for i := range hosts {
		r.net.RunAt(at(), func() { post(i) })
	}
	r.done = append(r.done, func(f *lab.Flow) {
		if i := f.Number() - first; i >= 0 && i < len(flows) {
			if next := to[i]; left[next] > 0 {
				post(next)
			}
		}
	})
	return nil
}

// startTree starts an all-reduce over a binary tree, in which host i has the children 2i+1 and 2i+2. The data goes in
// as many pieces as there are hosts: to the root, each piece when all children have sent theirs, and back.
func (t *Traffic) startTree(r *run, number int, top *Topology) error {
	hosts, piece := r.net.Hosts(), t.messageOctets(top)
	first := len(r.net.Flows())
	up, down := make([]*lab.Flow, len(hosts)), make([]*lab.Flow, len(hosts)) // to the parent, from it; host 0 has none
	for i := 1; i < len(hosts); i++ {
		var err error
		if up[i], err = r.net.Flow(hosts[i], hosts[(i-1)/2], sim.Rate(t.Rate)); err != nil {
			return err
		}
	}
	for i := 1; i < len(hosts); i++ {
		var err error
		if down[i], err = r.net.Flow(hosts[(i-1)/2], hosts[i], sim.Rate(t.Rate)); err != nil {
			return err
		}
	}
	children := func(i int) (c []int) {
		for j := 2*i + 1; j <= 2*i+2 && j < len(hosts); j++ {
			c = append(c, j)
		}
		return c
	}
	back := func(i int) {
		for _, c := range children(i) {
			down[c].Post(piece)
		}
	}
	at := t.startTimes(r, number)
	for i := range hosts {
		if i == 0 || len(children(i)) > 0 {
			continue
		}
		r.net.RunAt(at(), func() {
			for range hosts {
				up[i].Post(piece)
			}
		})
	}
	came := make([]int, len(hosts)) // of the pieces that each host has sent to its parent, those that are there
	sent := make([]int, len(hosts)) // pieces that each host with children has sent on
	r.done = append(r.done, func(f *lab.Flow) {
		n := f.Number() - first
		switch {
		case n < 0 || n >= 2*(len(hosts)-1):
		case n >= len(hosts)-1:
			back(n - len(hosts) + 2)
		default:
			came[n+1]++
			parent := n / 2
			for _, c := range children(parent) {
				if came[c] == sent[parent] {
					return
				}
			}
			sent[parent]++
			if parent == 0 {
				back(0)
			} else {
				up[parent].Post(piece)
			}
		}
	})
	return nil
}

// startTimes returns a function that returns when the next host begins.
func (t *Traffic) startTimes(r *run, number int) func() sim.Time {
	draws := r.net.Stream("starts", number)
	return func() sim.Time {
		at := t.At.sim()
		if t.Jitter > 0 {
			at += sim.Time(draws.Below(uint64(t.Jitter)))
		}
		return at
	}
}
