// Package reaction is the reaction point of a sender: the algorithms by which a
// queue pair reduces its rate after a notification, and increases it again. The
// drafts leave them open. The package has three, for a program that paces its
// queue pairs, or a simulation:
//
//	[DCQCN]  reacts to the arrival of a CNP or Fast CNP, not to its content
//	[HPCC]   reacts to the state of the ports of the path, in acknowledgements or in the trace of a Fast CNP
//	[Brake]  limits the rate of either as a PPFC requests
//
// Each gets the decisions of package sender, the number of octets sent, and the
// time, and returns a rate and the time of its next change. A [Table] applies
// them to all flows of a host. Nothing here has a clock: every call has the
// time of its event, and Next returns the time of the next update.
//
// DCQCN is that of Zhu et al., "Congestion Control for Large-Scale RDMA
// Deployments", SIGCOMM 2015:
//
//	rate  │‾‾╲          additive increase  ╱‾
//	      │   ╲     ___────────────────────
//	      │    ╲ ╱‾‾  fast recovery, halfway to the target at each stage
//	      │     notified
//	      └──────────────────────────────────── time, octets sent
//
// [PaperDCQCN] has the parameters of the paper, [ConnectX] those that a vendor
// documents for its network cards. A [DCQCN] has the parameters of all queue
// pairs of a port, a [DCQCNFlow] the state of one queue pair. Rates are whole
// numbers of bits a second and α is a fraction of 32 bits, so the same input
// gives the same rates on every machine.
//
// Experimental: this package may change in a minor release.
package reaction

import (
	"fmt"
	"math/bits"
	"time"
)

// DCQCNConfig has the parameters of DCQCN, with their names in the paper. Rates
// are in bits a second, at most 2^50. If it is not Enabled, rates stay at Line.
type DCQCNConfig struct {
	Enabled bool
	Line    uint64 // the rate of the port, at which each flow starts
	Min     uint64 // lowest rate after a cut

	// Gain is g, the weight of one update of α, above 0 and below 1. FirstAlpha is α before the first notification,
	// from 0 to 1.
	Gain, FirstAlpha float64

	// AlphaTimer is τ', the time without a notification after which α falls. With AlphaByTimer, α changes only at the
	// end of each such interval: it rises if a notification arrived in the interval, and falls otherwise. Without it,
	// each cut raises α.
	AlphaTimer   time.Duration
	AlphaByTimer bool

	// Gate is the shortest time between two cuts. A notification that arrives earlier
	// cuts the rate when Gate has passed. With 0 each notification cuts.
	Gate time.Duration

	// KeepTarget keeps the target rate at a cut that follows another one without a
	// complete stage of Timer between them.
	KeepTarget bool

	// Timer is the duration of a stage of the timer, ByteCounter the number of octets
	// of a stage of the byte counter; 0 disables the byte counter. The first Stages of
	// each are fast recovery.
	Timer       time.Duration
	ByteCounter uint64
	Stages      uint32 // F

	// Additive is R_AI, the increase of the target rate in each stage after fast recovery. Hyper is R_HAI, the
	// increase after timer and byte counter have both passed fast recovery; without a byte counter it begins one
	// stage later. With HyperGrows, Hyper is multiplied by the number of stages that both have completed after fast
	// recovery. If Hyper is 0, the increase stays Additive.
	Additive, Hyper uint64
	HyperGrows      bool
}

// PaperDCQCN returns the parameters of the paper for a port of this rate in
// bits a second. The paper chose them for 40 Gbit/s. There is no hyper
// increase, as in the analysis of its authors.
func PaperDCQCN(line uint64) DCQCNConfig {
	return DCQCNConfig{
		Enabled: true, Line: line, Min: min(line, 1e6),
		Gain: 1. / 256, FirstAlpha: 1, AlphaTimer: 55 * time.Microsecond,
		Timer: 55 * time.Microsecond, ByteCounter: 10_000_000, Stages: 5,
		Additive: 40e6,
	}
}

// ConnectX returns the defaults that NVIDIA documents for its network cards,
// for a port of this rate in bits a second: α changes every microsecond, at
// most one cut in 4 µs, one stage of fast recovery, a timer of 300 µs. The byte
// counter is off, because its unit is not documented.
func ConnectX(line uint64) DCQCNConfig {
	return DCQCNConfig{
		Enabled: true, Line: line, Min: min(line, 1e6),
		Gain: 5. / 1024, FirstAlpha: 1023. / 1024, AlphaTimer: time.Microsecond, AlphaByTimer: true,
		Gate: 4 * time.Microsecond, KeepTarget: true,
		Timer: 300 * time.Microsecond, Stages: 1,
		Additive: 5e6, Hyper: 50e6,
	}
}

// maxLine is the highest rate of a port, in bits a second.
const maxLine = 1 << 50

// A ConfigError means that a setting has an invalid value.
type ConfigError struct {
	Key   string // path of the field, such as DCQCN.Line
	Value any    // given value
	Want  string // valid values
}

// Error returns a text such as "reaction: Gain: 2: want more than 0, less than 1".
func (e *ConfigError) Error() string {
	return fmt.Sprintf("reaction: %s: %v: want %s", e.Key, e.Value, e.Want)
}

// checkFields returns the first error of a DCQCNConfig, or nil.
func (c *DCQCNConfig) checkFields() error {
	for _, wrong := range []struct {
		invalid bool
		key     string
		value   any
		want    string
	}{
		{c.Line == 0 || c.Line > maxLine, "Line", c.Line, "1 to 2^50 bits a second"},
		{c.Min == 0 || c.Min > c.Line, "Min", c.Min, fmt.Sprintf("1 to the line rate, %d bits a second", c.Line)},
		{!(c.Gain > 0 && c.Gain < 1), "Gain", c.Gain, "more than 0, less than 1"},
		{!(c.FirstAlpha >= 0 && c.FirstAlpha <= 1), "FirstAlpha", c.FirstAlpha, "0 to 1"},
		{c.AlphaTimer <= 0, "AlphaTimer", c.AlphaTimer, "more than 0"},
		{c.Gate < 0, "Gate", c.Gate, "0 or more"},
		{c.Timer <= 0, "Timer", c.Timer, "more than 0"},
		{c.Additive == 0 || c.Additive > maxLine, "Additive", c.Additive, "1 to 2^50 bits a second"},
		{c.Hyper > maxLine, "Hyper", c.Hyper, "at most 2^50 bits a second"},
	} {
		if wrong.invalid {
			return &ConfigError{wrong.key, wrong.value, wrong.want}
		}
	}
	return nil
}

// fraction is 1 in the fractions α and g.
const fraction = 1 << 32

// A DCQCN has the parameters of the flows of a port.
type DCQCN struct {
	cfg  DCQCNConfig
	gain uint64
}

// NewDCQCN returns a DCQCN, or a *[ConfigError]. It does not check a
// DCQCNConfig that is not Enabled.
func NewDCQCN(cfg DCQCNConfig) (*DCQCN, error) {
	if cfg.Enabled {
		if err := cfg.checkFields(); err != nil {
			return nil, err
		}
	}
	return &DCQCN{cfg: cfg, gain: max(uint64(cfg.Gain*fraction), 1)}, nil
}

// Start returns the state of a new flow, at the rate of the port.
func (d *DCQCN) Start() DCQCNFlow {
	return DCQCNFlow{d: d, rate: d.cfg.Line, target: d.cfg.Line, alpha: uint64(d.cfg.FirstAlpha * fraction)}
}

// multiplyFraction returns x·f, f being a fraction of 32 bits up to 1.
func multiplyFraction(x, f uint64) uint64 {
	hi, lo := bits.Mul64(x, f)
	return hi<<32 | lo>>32
}
