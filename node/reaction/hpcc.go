package reaction

import (
	"math"
	"math/bits"
	"time"
)

// HPCCConfig is what a deployment chooses. The zero HPCCConfig is off: rates stay
// what Line is.
type HPCCConfig struct {
	Enabled   bool
	Line, Min uint64 // bits a second

	Eta      float64       // η: the use of a link that is aimed at, above 0 to 1
	RTT      time.Duration // T: the base round trip, the longest of the network
	MaxStage uint32        // additive steps before the next multiplicative one
	Additive uint64        // R_AI, bits a second
}

// PaperHPCC returns the parameters of the paper for a port and a round trip.
func PaperHPCC(line uint64, rtt time.Duration) HPCCConfig {
	return HPCCConfig{Enabled: true, Line: line, Min: min(line, 1e6), Eta: 0.95, RTT: rtt, Additive: 40e6}
}

func (c *HPCCConfig) check() error {
	for _, wrong := range []struct {
		is        bool
		key, want string
	}{
		{c.Line == 0 || c.Line > MaxLine, "Line", "from 1 to 2^50 bits a second needed"},
		{c.Min == 0 || c.Min > c.Line, "Min", "from 1 to Line needed"},
		{!(c.Eta > 0 && c.Eta <= 1), "Eta", "above 0 to 1 needed"},
		{c.RTT <= 0 || c.RTT > time.Hour, "RTT", "above 0 to an hour needed"},
		{c.Additive > MaxLine, "Additive", "2^50 bits a second at most"},
	} {
		if wrong.is {
			return &ConfigError{wrong.key, wrong.want}
		}
	}
	return nil
}

// MaxHops is how many hops of a path are looked at; those behind them are not.
const MaxHops = 8

// A Hop is what a port says when a packet leaves it.
type Hop struct {
	Rate  uint64        // bits a second
	Queue uint64        // octets that wait
	Sent  uint64        // octets that the port has sent until now
	At    time.Duration // by the port's own clock
}

// An HPCC has the parameters of the flows that it starts: HPCC of Li et al.,
// "HPCC: High Precision Congestion Control", SIGCOMM 2019, as its authors' code has it.
// Each acknowledgement brings what every hop of the path said of itself, and the
// rate follows the busiest one.
//
// The drafts have no message for it: IOAM has no field for the octets that a port
// has sent. It is here to compare with.
type HPCC struct{ cfg HPCCConfig }

// NewHPCC returns an HPCC, or a *[ConfigError]. An HPCCConfig that is off is not
// looked at.
func NewHPCC(cfg HPCCConfig) (*HPCC, error) {
	if cfg.Enabled {
		if err := cfg.check(); err != nil {
			return nil, err
		}
	}
	return &HPCC{cfg}, nil
}

// Start returns the state of a new flow, at the rate of the port.
func (h *HPCC) Start() HPCCFlow {
	return HPCCFlow{h: h, rate: h.cfg.Line, base: float64(h.cfg.Line), use: 1}
}

// An HPCCFlow is the reaction point of one queue pair.
type HPCCFlow struct {
	h     *HPCC
	rate  uint64
	base  float64 // R_C: the rate that all acknowledgements of one round trip start from
	use   float64 // U
	stage uint32
	until uint64 // the sequence number at which the round trip ends
	hops  [MaxHops]Hop
	known int // hops; 0 before the first acknowledgement
}

// Again returns the state of another new flow with the same parameters.
func (f *HPCCFlow) Again() HPCCFlow {
	if f.h == nil {
		return HPCCFlow{}
	}
	return f.h.Start()
}

// Rate returns the rate that the flow may send at, in bits a second.
func (f *HPCCFlow) Rate() uint64 { return f.rate }

// Window returns how many octets may be on the way: rate times T, at least one
// packet of that size. There is no limit where HPCC is off.
func (f *HPCCFlow) Window(packet int) uint64 {
	if !f.h.cfg.Enabled {
		return math.MaxUint64
	}
	hi, lo := bits.Mul64(f.rate, uint64(f.h.cfg.RTT))
	octets, _ := bits.Div64(hi, lo, 8*uint64(time.Second))
	return max(octets, uint64(packet))
}

// Use returns the estimate of how much the busiest link is used: U, 1 being all
// of it, more where packets wait.
func (f *HPCCFlow) Use() float64 { return f.use }

// Acknowledged tells of an acknowledgement: of the number up to which it
// acknowledges, the number that will be sent next, and the hops of the packet
// that it answers. The numbers count octets or packets. A path of another length
// begins anew.
func (f *HPCCFlow) Acknowledged(number, next uint64, hops []Hop) {
	if !f.h.cfg.Enabled || len(hops) == 0 {
		return
	}
	hops = hops[:min(len(hops), MaxHops)]
	if f.known == len(hops) {
		f.react(number > f.until, hops)
	}
	if f.known != len(hops) || number > f.until {
		f.until = next
	}
	f.known = copy(f.hops[:], hops)
}

// react is the algorithm of the paper. Full is once in a round trip. Products are
// made float64 one by one, so that no machine joins them with a sum.
func (f *HPCCFlow) react(full bool, hops []Hop) {
	cfg := &f.h.cfg
	rtt := cfg.RTT.Seconds()
	most, span := -1., 0.
	for i := range hops {
		now, was := &hops[i], &f.hops[i]
		passed := (now.At - was.At).Seconds()
		if passed <= 0 || now.Rate == 0 {
			continue
		}
		rate := float64(now.Rate)
		sent := float64(now.Sent-was.Sent) * 8 / passed
		queue := float64(min(now.Queue, was.Queue)) * 8
		if u := float64(sent/rate) + float64(queue/(rate*rtt)); u > most {
			most, span = u, passed
		}
	}
	if most < 0 {
		return // no port's clock has gone on
	}
	span = min(span, rtt)
	f.use = float64(f.use*(1-span/rtt)) + float64(most*span/rtt)

	c := f.use / cfg.Eta
	rate, stage := f.base+float64(cfg.Additive), f.stage+1
	if c >= 1 || f.stage >= cfg.MaxStage {
		rate, stage = f.base/c+float64(cfg.Additive), 0
	}
	rate = min(max(rate, float64(cfg.Min)), float64(cfg.Line))
	f.rate = uint64(rate)
	if full {
		f.base, f.stage = rate, stage
	}
}
