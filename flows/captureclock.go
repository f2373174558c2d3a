package flows

import (
	"time"

	"github.com/rocecn/rocecn/bth"
)

// captureClock turns the times of frames into times that continue over clock steps, so that rates
// and distances in time are those of the packets.
//
// A jump backwards is a step unless the next frames return to the times before it. A jump forwards
// is a step if requests that were sent before it are answered after it without a retransmission, or
// messages continue in the middle: after a real pause of more than a second neither is so.
type captureClock struct {
	previous   int64 // time of the previous frame as captured, nanoseconds since 1970; 0 before the first
	shift      int64 // difference to the time that continues
	outOfOrder uint64
	steps      []ClockStep
	segments   []segment // after each of these steps

	jumped  bool  // the last jump is not judged yet
	before  int64 // time of the frame before it
	by      int64
	carried int             // waiting packets that continue traffic from before the jump
	waiting []waitingPacket // from the jump on
}

// A segment is the time after a clock step.
type segment struct{ begins, shift int64 }

// A waitingPacket is a packet that is kept until the capture is known better.
type waitingPacket struct {
	Packet
	frame   uint64
	at      int64
	twin    uint64 // see Packet.hashTwin
	twinned bool   // it came twice
}

const (
	leastStep  = int64(time.Second)
	maxSteps   = 64 // clock steps reported; further ones are not
	maxWaiting = 64 // packets after a jump forwards
	fewWaiting = 16 // packets after a jump backwards
	minCarried = 2
)

// observeSlowly is Observe for packets while the properties of the capture are judged: in its
// beginning, after a jump of the clock, and if each packet comes twice.
func (t *Table) observeSlowly(p *Packet, frame uint64, at int64) {
	c := &t.capture.clock
	if d := at - c.previous; c.previous != 0 && at != 0 && d < 0 && !isJump(d) {
		c.outOfOrder++
	}
	t.followClock(p, frame, at)
}

// isJump reports whether a distance in time between two frames is a jump of the clock, or a pause.
func isJump(d int64) bool { return d > leastStep || d < -leastStep }

// followClock records a packet, or keeps it after a jump of the clock.
func (t *Table) followClock(p *Packet, frame uint64, at int64) {
	c := &t.capture.clock
	before := c.previous
	if at != 0 {
		c.previous = at
	}
	switch {
	case c.jumped:
		t.waitAfterJump(p, frame, at)
	case before != 0 && at != 0 && isJump(at-before):
		t.processTwins(true)
		c.jumped, c.before, c.by, c.carried = true, before, at-before, 0
		t.capture.setPath()
		t.waitAfterJump(p, frame, at)
	default:
		t.observeTwins(p, frame, at+c.shift)
	}
}

// waitAfterJump keeps a packet after a jump of the clock, until the jump can be judged.
func (t *Table) waitAfterJump(p *Packet, frame uint64, at int64) {
	c := &t.capture.clock
	c.waiting = append(c.waiting, waitingPacket{Packet: *p, frame: frame, at: at})
	if c.by < 0 {
		if len(c.waiting) == fewWaiting {
			t.judgeJump()
		}
		return
	}
	carried, again := t.carriesOn(p)
	if carried {
		c.carried++
	}
	if c.carried == minCarried || again || len(c.waiting) == maxWaiting {
		t.judgeJump()
	}
}

// carriesOn reports whether a packet continues traffic from before all waiting packets: an answer to
// a request that was not answered, or a request in the middle of a message. It also reports whether
// the packet is a retransmission.
func (t *Table) carriesOn(p *Packet) (carried, again bool) {
	s := t.findStream(&p.pkt.Flow)
	if s == nil || p.icrcWrong {
		return false, false
	}
	switch r := &roles[p.pkt.Opcode]; p.kind {
	case requestKind:
		q := &s.flow.sequence
		d := bth.ComparePSN(p.pkt.PSN, q.next)
		near := d >= 0 && d < len(t.capture.clock.waiting)
		return q.seen && near && q.open && !r.begins, q.seen && d < 0 && d > -connectionDistance
	case answerKind:
		about := t.streamAbout(s)
		if about == nil || r.message == MessageRead {
			return false, false
		}
		q := &about.flow.sequence
		return q.seen && !q.isCovered(p.pkt.PSN) && bth.ComparePSN(p.pkt.PSN, q.next) < 0, false
	}
	return false, false
}

// judgeJump decides whether the last jump was a clock step, and records the waiting packets up to the
// next jump. The packets from there on are judged again.
func (t *Table) judgeJump() {
	c := &t.capture.clock
	waiting := c.waiting
	c.jumped, c.waiting = false, c.waiting[:0]
	t.capture.setPath()
	next := 1 // waiting packet after the next jump
	for next < len(waiting) && (waiting[next].at == 0 || !isJump(waiting[next].at-waiting[next-1].at)) {
		next++
	}
	first, step := waiting[0].at, c.by > 0 && c.carried >= minCarried
	switch {
	case c.by < 0:
		stayed := 0
		for i := range waiting {
			if waiting[i].at-first < -c.by/2 {
				stayed++
			}
		}
		if step = 2*stayed > len(waiting); !step {
			c.outOfOrder++
		}
	case next < len(waiting) && waiting[next].at-waiting[next-1].at < -c.by/2: // a pause does not end in the past
		step = true
	}
	if step {
		t.stepClock(waiting[0].frame, first)
	}
	for i := range waiting[:next] {
		w := &waiting[i]
		t.observeTwins(&w.Packet, w.frame, w.at+c.shift)
	}
	if next == len(waiting) {
		return
	}
	if c.previous = waiting[next-1].at; c.by < 0 && !step { // the packets return
		c.previous = c.before
	}
	for i := next; i < len(waiting); i++ {
		w := waiting[i] // followClock may overwrite waiting up to here
		t.followClock(&w.Packet, w.frame, w.at)
	}
}

// stepClock records a clock step before a frame. Times from before it are not compared with later
// ones.
func (t *Table) stepClock(frame uint64, at int64) {
	c := &t.capture.clock
	c.shift = t.latest + 1 - at
	if len(c.steps) == maxSteps {
		return
	}
	if c.steps == nil {
		c.steps, c.segments = make([]ClockStep, 0, maxSteps), make([]segment, 0, maxSteps)
	}
	c.steps = append(c.steps, ClockStep{frame, time.Duration(c.by)})
	c.segments = append(c.segments, segment{t.latest + 1, c.shift})
	for id := range t.streams.All() {
		f := t.streams.Value(id).flow
		if f == &noFlow {
			continue
		}
		f.cnps.came, f.cnps.ce = false, false
		if f.opening.set {
			f.opening.at = noTime
		}
		if h := t.histories.lookUp(f.history); h != nil {
			h.marks.head = h.marks.tail
			if r := t.retries.lookUp(h.retries); r != nil {
				r.forgetTimes()
			}
		}
		if e := t.evidences.lookUp(f.evidence); e != nil {
			e.previous = 0
			e.pace.judging, e.pace.recovering, e.pace.unheeded.run = false, false, sign{}
			e.pace.unanswered.run, e.pace.marks.judging, e.pace.quiet.judging = sign{}, false, false
		}
	}
}

// processWaiting records all packets that wait until the capture is known better.
func (t *Table) processWaiting() {
	for t.capture.clock.jumped {
		t.judgeJump()
	}
	t.processTwins(true)
}

// noTime is the time of a request that is not timed.
const noTime = -1

// timeOf returns the time as captured.
func (c *captureClock) timeOf(t time.Time) time.Time {
	at := t.UnixNano()
	for i := len(c.segments) - 1; i >= 0; i-- {
		if s := c.segments[i]; at >= s.begins {
			return timeOf(at - s.shift)
		}
	}
	return t
}

// restoreTimes sets the times of a snapshot to those of the capture.
func (c *captureClock) restoreTimes(s *Snapshot) {
	if len(c.segments) == 0 {
		return
	}
	restore := func(times ...*time.Time) {
		for _, t := range times {
			if !t.IsZero() {
				*t = c.timeOf(*t)
			}
		}
	}
	restoreSigns := func(signs ...*Sign) {
		for _, sign := range signs {
			restore(&sign.Since, &sign.Until)
		}
	}
	for i := range s.Flows {
		f := &s.Flows[i]
		restore(&f.First, &f.Last, &f.Responses.First, &f.Responses.Last)
		e := f.Evidence
		if e == nil {
			continue
		}
		for k := range e.signs {
			restoreSigns(&e.signs[k])
		}
		for k := range e.Notifiers {
			restoreSigns(&e.Notifiers[k].Sign)
		}
		restoreSigns(&e.Control.Unheeded, &e.Control.Unanswered)
		for k := range e.Trimmings {
			restoreSigns(&e.Trimmings[k])
		}
		for k := range e.Episodes {
			restore(&e.Episodes[k].Since, &e.Episodes[k].Until)
		}
	}
	for i := range s.Unpaired {
		u := &s.Unpaired[i]
		restoreSigns(&u.CNP, &u.Refused, &u.RNR, &u.WrongAnswer)
	}
	for i := range s.Links {
		for k := range s.Links[i].PauseSigns {
			restoreSigns(&s.Links[i].PauseSigns[k].Sign)
		}
	}
}
