package flows

import (
	"math"
	"math/bits"
	"time"

	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/message"
)

// assumedLinkRate is the link rate in bits per second if none is configured. It limits the length
// of a pause.
const assumedLinkRate = 100_000_000_000

// A link is the state of PFC and PAUSE frames from one source address by priority, with
// AllPriorities for the whole link.
type link struct {
	priorities [AllPriorities + 1]priorityState
	none       uint64 // PFC frames that name no priority
}

// Priority counts the frames that pause and resume one priority.
type Priority struct {
	XOFF, XON uint64 // frames with a nonzero time, frames with time 0
	// Paused is the time that the priority was paused. An XOFF pauses until the next XON, or until
	// its quanta have passed at the link's rate; another XOFF restarts the quanta. The last one
	// counts up to the last packet observed at most.
	Paused time.Duration
}

// priorityState is the state of one priority.
type priorityState struct {
	Priority
	rest   int64 // picoseconds not yet added to Paused, below 1000
	on     bool  // an XOFF was seen and no XON since
	since  int64 // time of the last frame, nanoseconds since 1970
	length int64 // pause time of the last XOFF in picoseconds

	sign    sign  // XOFFs
	began   int64 // begin of the current uninterrupted pause, nanoseconds since 1970
	longest int64 // longest finished pause in nanoseconds
}

// A PauseSign describes the pauses of a priority.
type PauseSign struct {
	Sign                  // XOFFs
	Longest time.Duration // longest uninterrupted pause
}

// countUntil adds the time that the last XOFF has paused up to now.
func (p *priorityState) countUntil(now int64) {
	if !p.on {
		return
	}
	ps := p.length
	if ns := max(now-p.since, 0); ns <= ps/1000 {
		ps = min(ns*1000, ps)
	}
	ps += p.rest
	p.Paused += time.Duration(ps / 1000)
	p.rest = ps % 1000
}

// endTime returns the time when the quanta of the last XOFF have passed.
func (p *priorityState) endTime() int64 { return p.since + min(p.length/1000, math.MaxInt64-p.since) }

// pausedFor returns the length of the uninterrupted pause that the last XOFF belongs to, up to now;
// 0 if there is none.
func (p *priorityState) pausedFor(now int64) int64 {
	if !p.on {
		return 0
	}
	return max(min(now, p.endTime())-p.began, 0)
}

// recordFrame records a frame that pauses the priority for length picoseconds, or resumes it if
// that is 0. If all is not nil, the pause is also recorded there.
func (p *priorityState) recordFrame(length int64, number uint64, now int64, all *pauses) {
	if back := p.since - now; back > 0 && back < int64(time.Second) {
		now = p.since // the clock of another capture queue: count no time twice
	}
	before := p.Paused
	p.countUntil(now)
	if all != nil {
		all.extendLast(p.since, p.Paused-before)
		if length > 0 {
			all.addXOFF(now, number)
		}
	}
	if end := p.endTime(); p.on && now > end {
		p.longest, p.on = max(p.longest, end-p.began), false // its quanta had passed
	}
	switch {
	case length > 0 && !p.on:
		p.began = now
	case length == 0:
		p.longest = max(p.longest, p.pausedFor(now))
	}
	p.on, p.since, p.length = length > 0, now, length
	if p.on {
		p.XOFF++
		p.sign.addFrame(number, now)
	} else {
		p.XON++
	}
}

// A pause is a decoded PFC or PAUSE frame. A PAUSE frame affects the whole link.
type pause struct {
	mac     [6]byte // source address
	whole   bool    // a PAUSE frame: only quanta[0] is used
	enabled uint8   // bit n for priority n
	quanta  [AllPriorities]uint16
}

// decodePause returns the fields of the PFC or PAUSE frame in m.
func decodePause(m *message.Message) (p pause) {
	if m.Kind == message.KindPause {
		p.whole, p.quanta[0] = true, m.Pause.Quanta
		return p
	}
	for priority, quanta := range m.PFC.All() {
		p.enabled |= 1 << priority
		p.quanta[priority] = quanta
	}
	return p
}

// observePause records a PFC or PAUSE frame.
func (t *Table) observePause(p *pause, frame uint64, at int64) {
	mac := uint64(be.Uint16(p.mac[:]))<<32 | uint64(be.Uint32(p.mac[2:]))
	if n := uint64(t.config.Shards); n > 1 && hash.Mix(mac, 0xE7037ED1A0B428DB)%n != uint64(t.config.Shard) {
		return
	}
	l := t.links[p.mac]
	if l == nil {
		if len(t.links) == maxLinks {
			t.stats.DroppedPFC++
			return
		}
		l = new(link)
		t.links[p.mac] = l
	}
	one := func(i int, quanta uint16) {
		l.priorities[i].recordFrame(t.pauseLength(quanta), frame, at, t.pausesOf(p.mac, i))
	}
	if p.whole {
		one(AllPriorities, p.quanta[0])
		return
	}
	if p.enabled == 0 {
		l.none++
	}
	for i, quanta := range p.quanta {
		if p.enabled>>i&1 != 0 {
			one(i, quanta)
		}
	}
}

// pauseLength returns the time of quanta of 512 bit times at the link's rate, in picoseconds.
func (t *Table) pauseLength(quanta uint16) int64 {
	if quanta == 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(quanta)*512, uint64(time.Second)*1000)
	if hi >= t.config.LinkRate {
		return math.MaxInt64 / 2
	}
	ps, _ := bits.Div64(hi, lo, t.config.LinkRate)
	return int64(min(max(ps, 1), math.MaxInt64/2))
}
