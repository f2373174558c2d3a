package reaction

import (
	"math"
	"time"
)

// A DCQCNFlow is the reaction point of one queue pair. Times must not go back; one
// that does counts as the latest before it.
type DCQCNFlow struct {
	d *DCQCN

	rate, target uint64 // R_C, R_T
	alpha        uint64

	last    int64 // latest time passed to a method; like all times here, Unix time in nanoseconds
	alphaAt int64 // when α was updated, or its interval began
	timerAt int64 // when the stage of the timer began
	cutAt   int64
	sent    uint64 // octets in the stage of the byte counter

	timerStages, byteStages uint32

	notified bool // once at least
	noticed  bool // in the interval of α
	waits    bool // a notification waits for the gate
	limited  bool // below the rate of the port, or on the way back to it
}

// Rate returns the rate that the flow may send at, in bits a second: R_C.
func (f *DCQCNFlow) Rate() uint64 { return f.rate }

// Alpha returns the estimate of congestion: α, from 0 to 1.
func (f *DCQCNFlow) Alpha(now time.Time) float64 {
	at := f.timeSinceStart(now)
	f.advanceTo(at)
	if f.notified {
		f.decayAlpha(at)
	}
	return float64(f.alpha) / fraction
}

// Next returns the time of the next change of the rate without further events, for a call of Advance. There is none
// while the flow is at the rate of the port.
func (f *DCQCNFlow) Next() (at time.Time, ok bool) {
	if !f.limited {
		return time.Time{}, false
	}
	return time.Unix(0, f.nextEvent()), true
}

func (f *DCQCNFlow) nextEvent() int64 {
	at := f.timerAt + int64(f.d.cfg.Timer)
	if f.waits {
		at = min(at, f.cutAt+int64(f.d.cfg.Gate))
	}
	return at
}

// maxStages is the maximum number of stages that one Advance executes. Those before the last
// ones of a longer silence are left out.
const maxStages = 1 << 12

// Advance performs the changes that are due.
func (f *DCQCNFlow) Advance(now time.Time) { f.advanceTo(f.timeSinceStart(now)) }

// timeSinceStart returns a time as it counts.
func (f *DCQCNFlow) timeSinceStart(now time.Time) int64 {
	f.last = max(f.last, now.UnixNano())
	return f.last
}

func (f *DCQCNFlow) advanceTo(now int64) {
	if !f.limited {
		return
	}
	timer := int64(f.d.cfg.Timer)
	if late := (now - f.timerAt) / timer; late > maxStages {
		f.timerAt += (late - maxStages) * timer
	}
	for f.limited && f.nextEvent() <= now {
		if gate := f.cutAt + int64(f.d.cfg.Gate); f.waits && gate <= f.timerAt+timer {
			f.cutRate(gate)
			continue
		}
		f.timerAt += timer
		f.timerStages = nextStages(f.timerStages)
		f.increaseRate()
	}
}

// nextStages returns the number of the next stage.
func nextStages(stages uint32) uint32 {
	if stages == math.MaxUint32 {
		return stages
	}
	return stages + 1
}

// Notified processes a notification: a CNP or a Fast CNP. Do not call it for a notification that repeats the report
// of the same congestion.
func (f *DCQCNFlow) Notified(now time.Time) {
	if !f.d.cfg.Enabled {
		return
	}
	at := f.timeSinceStart(now)
	f.advanceTo(at)
	if f.notified {
		f.decayAlpha(at)
	} else {
		f.alphaAt = at
	}
	f.noticed = true
	if f.notified && at-f.cutAt < int64(f.d.cfg.Gate) {
		f.waits, f.limited = true, true
		return
	}
	f.notified = true
	f.cutRate(at)
}

// decayAlpha updates α for the intervals that are over.
func (f *DCQCNFlow) decayAlpha(now int64) {
	interval := int64(f.d.cfg.AlphaTimer)
	over := (now - f.alphaAt) / interval
	f.alphaAt += over * interval
	for ; over > 0 && (f.alpha > 0 || f.noticed); over-- {
		if f.d.cfg.AlphaByTimer && f.noticed {
			f.raiseAlpha()
		} else {
			f.alpha = multiplyFraction(f.alpha, fraction-f.d.gain)
		}
		f.noticed = false
	}
}

// raiseAlpha is α = (1−g)α + g.
func (f *DCQCNFlow) raiseAlpha() { f.alpha = multiplyFraction(f.alpha, fraction-f.d.gain) + f.d.gain }

// cutRate applies a notification: R_T = R_C, R_C = R_C(1−α/2), and then α.
func (f *DCQCNFlow) cutRate(at int64) {
	f.decayAlpha(at)
	if !f.d.cfg.KeepTarget || f.timerStages > 0 || !f.limited {
		f.target = f.rate
	}
	f.rate = max(f.rate-multiplyFraction(f.rate, f.alpha)/2, f.d.cfg.Min)
	if !f.d.cfg.AlphaByTimer {
		f.raiseAlpha()
		f.alphaAt = at
	}
	f.cutAt, f.timerAt = at, at
	f.sent, f.timerStages, f.byteStages = 0, 0, 0
	f.waits, f.limited = false, true
}

// Sent counts the octets of a sent packet.
func (f *DCQCNFlow) Sent(octets uint64, now time.Time) {
	f.advanceTo(f.timeSinceStart(now))
	if !f.limited || f.d.cfg.ByteCounter == 0 {
		return
	}
	f.sent += octets
	if f.sent >= f.d.cfg.ByteCounter {
		f.sent %= f.d.cfg.ByteCounter
		f.byteStages = nextStages(f.byteStages)
		f.increaseRate()
	}
}

// increaseRate applies the end of a stage.
func (f *DCQCNFlow) increaseRate() {
	cfg := &f.d.cfg
	both := min(f.timerStages, f.byteStages)
	switch {
	case max(f.timerStages, f.byteStages) <= cfg.Stages: // fast recovery
	case cfg.Hyper > 0 && (both > cfg.Stages || cfg.ByteCounter == 0 && f.timerStages > cfg.Stages+1):
		step := cfg.Hyper
		if cfg.HyperGrows {
			step *= uint64(min(max(both, cfg.Stages+1)-cfg.Stages, 1<<12))
		}
		f.target += step
	default:
		f.target += cfg.Additive
	}
	f.target = min(f.target, cfg.Line)
	f.rate = (f.rate + f.target + 1) / 2
	if f.rate == cfg.Line {
		f.limited = f.waits
	}
}
