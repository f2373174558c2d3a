package scenario

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
)

// run is one variant with one seed.
type run struct {
	net    *lab.Network
	fixed  int   // flows that exist from the start; those of poisson and bursts come later
	ends   []int // of these, the number after each traffic
	later  []int // the numbers of the traffics of those that come later
	done   []func(*lab.Flow)
	ports  []*lab.Port // of switches
	result Result

	upward  bool               // there are uplinks
	endless map[*lab.Flow]bool // flows with an endless message
	halves  []*window          // those of the time after the warmup
}

// Bins are the upper limits of message sizes in each bin; the last one has none.
var Bins = []int64{10_000, 100_000, 1_000_000, math.MaxInt64}

// binOf returns the bin of a message.
func binOf(octets int64) int {
	return slices.IndexFunc(Bins, func(most int64) bool { return octets <= most })
}

// A Result holds the measurements of a run.
type Result struct {
	Variant lab.Variant
	Seed    uint64
	Ended   sim.Time // before the scenario's duration if the run was interrupted
	Err     error    // why the run ended, or which counters are inconsistent

	// The switch port with the deepest data queue in the whole run; the first one of several.
	Port string // from which node to which
	Peak int64  // octets, the most in this queue

	Steady           // after the warmup
	Halves [2]Steady // first and second half of the time after the warmup

	Counts lab.Counts
	Paused sim.Time // sum over all ports of switches and hosts
	Stored int64    // the most octets that a PE stored of flows that it was asked to stop or hold

	FirstCut sim.Time   // from the first decision to the first cut; Never if there was none
	Cuts     []sim.Time // of each queue pair that was cut: from the first decision about a packet of its own
	AtHosts  uint64     // packets that experienced congestion at a port to a host
	Uplinks  []uint64   // those of each port from a leaf to a spine, or in a fat tree from an edge switch

	Finished   int // messages, of the whole run
	Unfinished int // those that were not acknowledged, without endless ones

	// Of the messages that were posted after the warmup and have ended.
	Completion []lab.Histogram // by bin: nanoseconds from when a message was posted to its last acknowledgement
	Slowdown   []lab.Histogram // by bin: the same in hundredths of the time that the message alone takes
	Last       sim.Time        // when the last message ended
	Open       []int           // by bin: of the messages that were posted after the warmup, those that have not ended

	Print  uint64
	Events uint64

	Messages []MessageResult // those of the whole run that have ended, with Scenario.KeepMessages
}

// A MessageResult is a message that has ended.
type MessageResult struct {
	From, To int      // numbers of the hosts
	Octets   int64    // of data
	Posted   sim.Time // when it was posted
	Took     sim.Time // until its last acknowledgement
	Alone    sim.Time // the time that it takes in the idle network
}

func (s *Scenario) prepareRun(v lab.Variant, seed uint64) (*run, error) {
	n, err := s.Topology.buildNetwork(s.config(v, seed))
	if err != nil {
		return nil, err
	}
	r := &run{net: n, endless: map[*lab.Flow]bool{}}
	r.upward = s.Topology.Kind == "leaf-spine" || s.Topology.Kind == "fat-tree"
	r.result = Result{
		Variant: v, Seed: seed, FirstCut: sim.Never,
		Completion: make([]lab.Histogram, len(Bins)), Slowdown: make([]lab.Histogram, len(Bins)),
		Open: make([]int, len(Bins)),
	}
	for i := range s.Traffic {
		if err := s.Traffic[i].startTraffic(r, i, &s.Topology); err != nil {
			return nil, err
		}
		r.ends = append(r.ends, len(r.net.Flows()))
	}
	r.fixed = len(r.net.Flows())
	for _, sw := range r.net.Switches() {
		r.ports = append(r.ports, sw.Ports()...)
	}
	r.net.Done = func(f *lab.Flow, octets int64, posted sim.Time) {
		if s.KeepMessages {
			r.result.Messages = append(r.result.Messages, MessageResult{
				From: f.Source().Number(), To: f.Destination().Number(), Octets: octets,
				Posted: posted, Took: r.net.Sim.Now() - posted, Alone: f.Alone(octets),
			})
		}
		if posted >= s.Warmup.sim() {
			took := r.net.Sim.Now() - posted
			alone := f.Alone(octets)
			bin := binOf(octets)
			r.result.Completion[bin].Add(uint64(took/sim.Nanosecond), 1)
			r.result.Slowdown[bin].Add(uint64(took)*100/uint64(alone), 1)
		}
		r.result.Finished++
		r.result.Last = r.net.Sim.Now()
		for _, done := range r.done {
			done(f)
		}
	}
	return r, nil
}

// deepestPort returns the index of the port with the deepest data queue; of several the first.
func (r *run) deepestPort() (deepest int) {
	for i, p := range r.ports {
		if p.Most() > r.ports[deepest].Most() {
			deepest = i
		}
	}
	return deepest
}

// endMeasuring collects the results.
func (r *run) endMeasuring(from sim.Time) {
	n, res := r.net, &r.result
	res.Ended, res.Counts = n.Sim.Now(), n.Counts()
	if res.Err == nil {
		res.Err = n.Check()
	}
	res.Print, res.Events = n.Print(), n.Sim.Events()
	deepest := r.deepestPort()
	res.Port, res.Peak = r.ports[deepest].String(), r.ports[deepest].Most()
	for _, p := range r.ports {
		res.Paused += p.Paused()
		if p.Last() {
			res.AtHosts += p.Congested()
		}
		if r.upward && p.Uplink() {
			res.Uplinks = append(res.Uplinks, p.Congested())
		}
	}
	for _, s := range n.Switches() {
		res.Stored = max(res.Stored, s.Stored())
	}
	for _, h := range n.Hosts() {
		res.Paused += h.Port().Paused()
	}
	for _, f := range n.Flows() {
		if !r.endless[f] {
			for octets, posted := range f.Waiting() {
				res.Unfinished++
				if posted >= from {
					res.Open[binOf(octets)]++
				}
			}
		}
		if f.FirstCut() != sim.Never {
			res.FirstCut = min(res.FirstCut, f.FirstCut()-res.Counts.Onset)
			res.Cuts = append(res.Cuts, f.FirstCut()-f.Onset())
		}
	}
	r.measureSteady(deepest)
}

// Each calls do with each number from 0 to n-1, as many at a time as there are
// processors, and returns when all calls have returned. When ctx ends, it
// starts no more calls.
func Each(ctx context.Context, n int, do func(i int)) {
	todo := make(chan int)
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		all.Go(func() {
			for i := range todo {
				do(i)
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		select {
		case todo <- i:
		case <-ctx.Done():
		}
	}
	close(todo)
	all.Wait()
}

// Run runs every variant with every seed, as many at a time as there are
// processors, and returns the results by variant and seed. It calls progress
// with the share of all runs that is done, from 0 to 1. When ctx ends, the
// results are those until then; runs that had not begun are missing.
func (s *Scenario) Run(ctx context.Context, progress func(share float64)) ([]Result, error) {
	type job struct {
		variant lab.Variant
		seed    uint64
	}
	var jobs []job
	for _, v := range s.Variants {
		for _, seed := range s.Seeds {
			jobs = append(jobs, job{v, seed})
		}
	}
	results := make([]*Result, len(jobs))
	errs := make([]error, len(jobs))
	var lock sync.Mutex
	done := 0.
	Each(ctx, len(jobs), func(i int) {
		r, err := s.prepareRun(jobs[i].variant, jobs[i].seed)
		if errs[i] = err; err != nil {
			return
		}
		r.runThrough(ctx, s, func(share float64) {
			lock.Lock()
			done += share / float64(len(jobs))
			progress(done)
			lock.Unlock()
		})
		result := r.result // a copy, so that the results of a run do not keep its network in memory
		results[i] = &result
	})
	var there []Result
	for i, r := range results {
		switch {
		case errs[i] != nil:
			return nil, errs[i]
		case r != nil && r.Err != nil:
			return nil, fmt.Errorf("%v, seed %d: %w", r.Variant, r.Seed, r.Err)
		case r != nil:
			there = append(there, *r)
		}
	}
	return there, nil
}

// runThrough runs to the end, or until the context ends, and calls step after each step with the share of the run
// that it was.
func (r *run) runThrough(ctx context.Context, s *Scenario, step func(share float64)) {
	n, end, from := r.net, s.Duration.sim(), s.Warmup.sim()
	was := sim.Time(0)
	report := func() {
		step(float64(n.Sim.Now()-was) / float64(end))
		was = n.Sim.Now()
	}
	err := n.Run(ctx, from, report)
	for _, to := range []sim.Time{from + (end-from)/2, end} {
		if err != nil || r.result.Err != nil {
			break
		}
		w := r.startWindow()
		err = n.Run(ctx, to, report) // the result has the time that was reached
		w.stopWindow(r)
	}
	r.endMeasuring(from)
}
