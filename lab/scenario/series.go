package scenario

import (
	"context"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
)

// A Series is a run over time, in intervals.
type Series struct {
	Every  sim.Time // the length of an interval
	Port   string   // the port of the switch with the deepest data queue in the whole run
	Queue  []int64  // octets, the most that the queue had in the interval
	Use    []float64
	Rate   []float64 // bits a second, the sum of the rates of all flows at its end
	Notice []uint64  // notifications that reached reaction points in it
}

// Series runs one variant with one seed, and returns its measurements in intervals of this length. The error is that of
// ctx if ctx has ended, or names the inconsistent counters.
func (s *Scenario) Series(ctx context.Context, v lab.Variant, seed uint64, every sim.Time) (*Series, error) {
	r, err := s.prepareRun(v, seed)
	if err != nil {
		return nil, err
	}
	n, out := r.net, &Series{Every: every}
	count := int(s.Duration.sim() / every)
	queues, uses := make([][]int64, len(r.ports)), make([][]float64, len(r.ports))
	sent := make([]uint64, len(r.ports))
	notified := uint64(0)
	for i := range count {
		var meters []*lab.Meter
		for _, p := range r.ports {
			meters = append(meters, p.Meter())
		}
		if err := n.Run(ctx, sim.Time(i+1)*every, nil); err != nil {
			return nil, err
		}
		if r.result.Err != nil {
			return nil, r.result.Err
		}
		for j, p := range r.ports {
			p.Stop()
			queues[j] = append(queues[j], int64(meters[j].Queue.Max()))
			uses[j] = append(uses[j], float64(p.Sent()-sent[j])/float64(p.Rate().Octets(every)))
			sent[j] = p.Sent()
		}
		rate := 0.
		for _, f := range n.Flows() {
			rate += float64(f.Rate())
		}
		out.Rate = append(out.Rate, rate)
		out.Notice = append(out.Notice, n.Counts().Notified-notified)
		notified = n.Counts().Notified
	}
	deepest := r.deepestPort()
	out.Port, out.Queue, out.Use = r.ports[deepest].String(), queues[deepest], uses[deepest]
	return out, n.Check()
}
