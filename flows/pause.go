package flows

import (
	"math"
	"math/bits"
	"time"

	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/message"
)

// assumedLinkRate is the rate of a link that is not given, in bits a second: how
// long a pause lasts at most depends on it.
const assumedLinkRate = 100_000_000_000

// A link is what is known of PFC and PAUSE frames from one source address, by
// priority; AllPriorities stands for the whole link.
type link [AllPriorities + 1]priorityState

// Priority counts the frames that pause one priority, or let it go on.
type Priority struct {
	XOFF, XON uint64 // frames with a time, and with time 0
	// Paused is how long the priority was paused: each XOFF pauses until an XON,
	// or until its quanta have passed at the link's rate. Another XOFF meanwhile
	// begins anew. The last one lasts up to the last packet observed, at most.
	Paused time.Duration
}

// priorityState is what is known of one priority.
type priorityState struct {
	Priority
	rest   int64 // picoseconds that Paused has no room for, below 1000
	on     bool  // an XOFF came, and no XON since
	since  int64 // nanoseconds since 1970: when the last one came
	length int64 // picoseconds: how long that one pauses

	sign    sign  // of XOFFs
	began   int64 // nanoseconds since 1970: since when it is paused without an end
	longest int64 // nanoseconds: the longest time without an end that is over
}

// A PauseSign is the sign of a priority that was paused.
type PauseSign struct {
	Sign                  // XOFFs
	Longest time.Duration // the longest time that it was paused without an end
}

// countUntil counts what the last XOFF paused up to now.
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

// endTime returns when what the last XOFF asked for has passed.
func (p *priorityState) endTime() int64 { return p.since + min(p.length/1000, math.MaxInt64-p.since) }

// pausedFor returns for how long the priority has been paused without an end now, or was when that passed; 0 if it is not.
func (p *priorityState) pausedFor(now int64) int64 {
	if !p.on {
		return 0
	}
	return max(min(now, p.endTime())-p.began, 0)
}

// recordFrame records what a frame says of the priority, a pause of so many
// picoseconds, 0 to go on, that came now. If all is not nil, that remembers when.
func (p *priorityState) recordFrame(length int64, number uint64, now int64, all *pauses) {
	if back := p.since - now; back > 0 && back < int64(time.Second) {
		now = p.since // the clock of another queue: no time is counted twice
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

// A pause is what a PFC frame says, or a PAUSE frame, which is about the whole
// link.
type pause struct {
	mac     [6]byte // of its source
	whole   bool    // a PAUSE frame: quanta[0] counts
	enabled uint8   // bit n for priority n
	quanta  [AllPriorities]uint16
}

// decodePause returns what the frame in m says, which is of one of the two kinds.
func decodePause(m *message.Message) (p pause) {
	if m.Kind == message.Pause {
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
		l[i].recordFrame(t.pauseLength(quanta), frame, at, t.pausesOf(p.mac, i))
	}
	if p.whole {
		one(AllPriorities, p.quanta[0])
		return
	}
	for i, quanta := range p.quanta {
		if p.enabled>>i&1 != 0 {
			one(i, quanta)
		}
	}
}

// pauseLength returns how long so many quanta of 512 bit times last at the
// link's rate, in picoseconds.
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
