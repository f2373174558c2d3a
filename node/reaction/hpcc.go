package reaction

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// HPCCConfig is the configuration. The zero HPCCConfig is off: rates stay at Line.
type HPCCConfig struct {
	Enabled   bool
	Line, Min uint64 // bits a second; Line up to 2^50

	Eta      float64       // η: the use of a link that is aimed at, above 0 to 1
	BaseRTT  time.Duration // T: the round trip without queues, the longest of the network
	MaxStage uint32        // additive steps before the next multiplicative one
	RAI      uint64        // R_AI, the additive step, bits a second: W_AI is that times T
}

// PaperHPCC returns the parameters of the paper for a port and a round trip.
func PaperHPCC(line uint64, rtt time.Duration) HPCCConfig {
	return HPCCConfig{Enabled: true, Line: line, Min: min(line, 1e6), Eta: 0.95, BaseRTT: rtt, RAI: 40e6}
}

func (c *HPCCConfig) checkFields() error {
	for _, wrong := range []struct {
		invalid bool
		key     string
		value   any
		want    string
	}{
		{c.Line == 0 || c.Line > maxLine, "Line", c.Line, "1 to 2^50 bits a second"},
		{c.Min == 0 || c.Min > c.Line, "Min", c.Min, fmt.Sprintf("1 to the line rate, %d bits a second", c.Line)},
		{!(c.Eta > 0 && c.Eta <= 1), "Eta", c.Eta, "more than 0, at most 1"},
		{c.BaseRTT <= 0 || c.BaseRTT > time.Hour, "BaseRTT", c.BaseRTT, "more than 0, at most 1h"},
		{c.RAI > maxLine, "RAI", c.RAI, "at most 2^50 bits a second"},
	} {
		if wrong.invalid {
			return &ConfigError{wrong.key, wrong.value, wrong.want}
		}
	}
	return nil
}

// MaxHops is the maximum number of hops of a path that count; later ones are ignored.
const MaxHops = 8

// A Hop is the state of a port when a packet leaves it, under the names of HPCC++.
type Hop struct {
	B       uint64        // bandwidth, bits a second
	QLen    uint64        // octets that wait
	TxBytes uint64        // octets that the port has sent until now
	TS      time.Duration // by the port's own clock
}

// An HPCC has the parameters of the flows that it starts: HPCC of Li et al., "HPCC: High Precision Congestion
// Control", SIGCOMM 2019, as its authors' code has it, with the names of HPCC++ (draft-miao-ccwg-hpcc). The sender
// receives the state of every hop of a path, and the rate follows the busiest hop.
//
//	with each acknowledgement    all hops, all fields         Acknowledged
//	with a Fast CNP, option 2    the hops that were marked    Notified
//
// The trace of a Fast CNP is an IOAM trace. IOAM has no field for the bandwidth of a port, which is a parameter of
// [Hops], and none for the octets that a port has sent, without which a port is known to be busy only while packets
// wait.
type HPCC struct{ cfg HPCCConfig }

// NewHPCC returns an HPCC, or a *[ConfigError]. An HPCCConfig that is off is not
// looked at.
func NewHPCC(cfg HPCCConfig) (*HPCC, error) {
	if cfg.Enabled {
		if err := cfg.checkFields(); err != nil {
			return nil, err
		}
	}
	return &HPCC{cfg}, nil
}

// Start returns the state of a new flow, at the rate of the port.
func (h *HPCC) Start() HPCCFlow {
	return HPCCFlow{h: h, rate: h.cfg.Line, rc: float64(h.cfg.Line), u: 1}
}

// An HPCCFlow is the reaction point of one queue pair. Times must not go back; one
// that does counts as the latest before it.
type HPCCFlow struct {
	h             *HPCC
	rate          uint64
	rc            float64 // R_c: the rate that all that comes in one round trip starts from
	u             float64 // U
	incStage      uint32
	lastUpdateSeq uint64 // the sequence number at which the round trip ends
	l             [MaxHops]Hop
	known         int // hops in l; 0 before the first acknowledgement

	noticed  bool  // by Notified, once at least
	last     int64 // latest time passed to a method; like all times here, Unix time in nanoseconds
	noticeAt int64 // when the latest notification came
	updated  int64 // when R_c was updated by a notification, or by the timer
}

// Rate returns the rate that the flow may send at, in bits a second.
func (f *HPCCFlow) Rate() uint64 { return f.rate }

// Window returns the number of octets that may be on the way: rate times T, at least one
// packet of that size. There is no limit where HPCC is off.
func (f *HPCCFlow) Window(packet int) uint64 {
	if !f.h.cfg.Enabled {
		return math.MaxUint64
	}
	hi, lo := bits.Mul64(f.rate, uint64(f.h.cfg.BaseRTT))
	octets, _ := bits.Div64(hi, lo, 8*uint64(time.Second))
	return max(octets, uint64(packet))
}

// Use returns the estimated use of the busiest link: U, 1 being all
// of it, more where packets wait.
func (f *HPCCFlow) Use() float64 { return f.u }

// Acknowledged processes an acknowledgement: the acknowledged number, the number that will be sent next, and the hops
// of the acknowledged packet. The numbers count octets or packets. A path of another length resets the state.
func (f *HPCCFlow) Acknowledged(number, next uint64, hops []Hop) {
	if !f.h.cfg.Enabled || len(hops) == 0 {
		return
	}
	hops = hops[:min(len(hops), MaxHops)]
	update := number > f.lastUpdateSeq
	if f.known == len(hops) && f.measureInflight(hops) {
		f.computeRate(update)
	}
	if f.known != len(hops) || update {
		f.lastUpdateSeq = next
	}
	f.known = copy(f.l[:], hops)
}

// measureInflight estimates U from the current and the previous state of the hops, and reports whether it could: the
// clock of at least one port must have advanced. Each product is converted to float64 separately, so that no machine
// fuses it with a sum.
func (f *HPCCFlow) measureInflight(hops []Hop) bool {
	t := f.h.cfg.BaseRTT.Seconds()
	u, tau := -1., 0.
	for i := range hops {
		now, was := &hops[i], &f.l[i]
		passed := (now.TS - was.TS).Seconds()
		if passed <= 0 || now.B == 0 {
			continue
		}
		b := float64(now.B)
		txRate := float64(now.TxBytes-was.TxBytes) * 8 / passed
		qlen := float64(min(now.QLen, was.QLen)) * 8
		if x := float64(txRate/b) + float64(qlen/(b*t)); x > u {
			u, tau = x, passed
		}
	}
	if u < 0 {
		return false
	}
	f.averageUse(u, tau)
	return true
}

// averageUse moves U towards the use measured over a time.
func (f *HPCCFlow) averageUse(u, tau float64) {
	t := f.h.cfg.BaseRTT.Seconds()
	tau = min(tau, t)
	f.u = float64(f.u*(1-tau/t)) + float64(u*tau/t)
}

// computeRate sets the rate by U; where updateRc is set, once in a round trip, from there on.
func (f *HPCCFlow) computeRate(updateRc bool) {
	cfg := &f.h.cfg
	c := f.u / cfg.Eta
	rate, stage := f.rc+float64(cfg.RAI), f.incStage+1
	if c >= 1 || f.incStage >= cfg.MaxStage {
		rate, stage = f.rc/c+float64(cfg.RAI), 0
	}
	rate = min(max(rate, float64(cfg.Min)), float64(cfg.Line))
	f.rate = uint64(rate)
	if updateRc {
		f.rc, f.incStage = rate, stage
	}
}

// Notified processes a Fast CNP with the hops of its trace. A port with waiting packets sends at line rate: u = 1 +
// qlen/(B·T). The load of a port without waiting packets is unknown; if there are no other ports, the rate does not
// change.
//
// Without congestion there are no notifications. So a flow that reacts to notifications instead of acknowledgements
// adds R_AI in each T without one: see [HPCCFlow.Next].
func (f *HPCCFlow) Notified(hops []Hop, now time.Time) {
	if !f.h.cfg.Enabled {
		return
	}
	f.Advance(now)
	t := f.h.cfg.BaseRTT.Seconds()
	u := 0.
	for i := range hops[:min(len(hops), MaxHops)] {
		if h := &hops[i]; h.QLen > 0 && h.B > 0 {
			u = max(u, 1+float64(float64(h.QLen)*8/(float64(h.B)*t)))
		}
	}
	if u == 0 {
		return
	}
	passed := t
	if f.noticed {
		passed = float64(f.last-f.noticeAt) / 1e9
	}
	update := !f.noticed || f.last-f.updated >= int64(f.h.cfg.BaseRTT)
	f.noticed, f.noticeAt = true, f.last
	f.averageUse(u, passed)
	f.computeRate(update)
	if update {
		f.updated = f.last
	}
}

// Next returns the time of the next change of the rate without further events, for a call of Advance.
func (f *HPCCFlow) Next() (at time.Time, ok bool) {
	if !f.isTimed() {
		return time.Time{}, false
	}
	return time.Unix(0, f.nextDue()), true
}

// isTimed reports whether only time brings the rate back up.
func (f *HPCCFlow) isTimed() bool { return f.noticed && f.known == 0 && f.rate < f.h.cfg.Line }

func (f *HPCCFlow) nextDue() int64 { return max(f.noticeAt, f.updated) + int64(f.h.cfg.BaseRTT) }

// Advance adds the increase that is due: R_AI for each T without a notification.
func (f *HPCCFlow) Advance(now time.Time) {
	f.last = max(f.last, now.UnixNano())
	if !f.isTimed() || f.last < f.nextDue() {
		return
	}
	t := int64(f.h.cfg.BaseRTT)
	steps := (f.last-f.nextDue())/t + 1
	f.updated = f.nextDue() + (steps-1)*t
	f.rc = min(float64(f.rate)+float64(float64(steps)*float64(f.h.cfg.RAI)), float64(f.h.cfg.Line))
	f.rate = uint64(f.rc)
}
