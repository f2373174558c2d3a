package check

import (
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/fluid"
	"github.com/rocecn/rocecn/node/sender"
)

// proven is the network of the authors' proof of convergence: flows as the proof has them, and every packet marked
// above KMax. Flows begin with an α.
func proven(alpha float64) lab.Config {
	cfg := paper(lab.CNP)
	cfg.RED = lab.RED{Min: 200_000, Max: 200_000, Probability: 1}
	cfg.Control = func(line uint64) lab.Control {
		return &proofFlow{p: fluid.Paper(1), rate: float64(line), line: float64(line), alpha: alpha}
	}
	return cfg
}

// A proofFlow is DCQCN as the proof of convergence has it: a cut sets the target rate to what it cuts to, so that the
// rate rises by R_AI in each τ' from then on. There is no fast recovery and no byte counter.
type proofFlow struct {
	p                 fluid.Params
	line, rate, alpha float64
	began             time.Time // of the τ' that goes on; zero before the first cut
}

func (f *proofFlow) interval() time.Duration { return time.Duration(f.p.AlphaTimer * 1e9) }

// Rate returns the rate, in bits a second.
func (f *proofFlow) Rate() uint64 { return uint64(f.rate) }

// Next returns when a τ' ends.
func (f *proofFlow) Next() (time.Time, bool) { return f.began.Add(f.interval()), !f.began.IsZero() }

// Look ends those that are over: α falls, and the rate rises.
func (f *proofFlow) Look(now time.Time) {
	for at, on := f.Next(); on && !at.After(now); at, on = f.Next() {
		f.began = at
		f.alpha *= 1 - f.p.Gain
		f.rate = min(f.rate+f.p.Additive, f.line)
	}
}

// Sent does nothing.
func (f *proofFlow) Sent(int, time.Time) {}

// Hear cuts.
func (f *proofFlow) Hear(_ *sender.Decision, now time.Time) {
	f.rate *= 1 - f.alpha/2
	f.alpha = (1-f.p.Gain)*f.alpha + f.p.Gain
	f.began = now
}
