package check

import (
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/fluid"
	"github.com/rocecn/rocecn/node"
)

// proven is the network of the authors' proof of convergence: flows as in the proof, and every packet above
// KMax marked. Flows begin with this α.
func proven(alpha float64) lab.Config {
	cfg := paper(lab.CNP)
	cfg.RED = lab.RED{Min: 200_000, Max: 200_000, Probability: 1}
	cfg.Control = func(line uint64) lab.Control {
		return &proofFlow{p: fluid.Paper(1), rate: float64(line), line: float64(line), alpha: alpha}
	}
	return cfg
}

// A proofFlow is DCQCN as in the proof of convergence: a cut also sets the target rate to the new rate, so that
// from then on the rate rises by R_AI in each τ'. There is no fast recovery and no byte counter.
type proofFlow struct {
	lab.ControlBase
	p                 fluid.Params
	line, rate, alpha float64
	began             time.Time // of the current τ'; zero before the first cut
}

func (f *proofFlow) interval() time.Duration { return time.Duration(f.p.AlphaTimer * 1e9) }

// Rate returns the rate, in bits a second.
func (f *proofFlow) Rate() uint64 { return uint64(f.rate) }

// Next returns when the current τ' ends.
func (f *proofFlow) Next() (time.Time, bool) { return f.began.Add(f.interval()), !f.began.IsZero() }

// Advance processes each τ' that has ended: α falls, and the rate rises.
func (f *proofFlow) Advance(now time.Time) {
	for at, on := f.Next(); on && !at.After(now); at, on = f.Next() {
		f.began = at
		f.alpha *= 1 - f.p.Gain
		f.rate = min(f.rate+f.p.Additive, f.line)
	}
}

// Notified cuts the rate.
func (f *proofFlow) Notified(_ *node.Decision, now time.Time) {
	f.rate *= 1 - f.alpha/2
	f.alpha = (1-f.p.Gain)*f.alpha + f.p.Gain
	f.began = now
}
