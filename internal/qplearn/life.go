package qplearn

import (
	"time"

	"github.com/rocecn/rocecn/bth"
)

// How far a request may be from the PSN expected next and still belong to the
// same life.
const (
	late = 64 // either way, and moves that: reordering, a few packets that the capture lost
	// beyond it, once answered; only an answer moves it there, as the PSN may be an attacker's guess
	nearby  = 1 << 11
	repeats = 1 << 8  // before what was acknowledged, as acknowledgements may be lost after the capture point
	window  = 1 << 16 // before it, where no answer shows what was acknowledged
	span    = 1 << 22 // distances are kept below this, so that they are unambiguous modulo 2^24
	// that of a READ of 2 GiB, the longest: 2^23 responses at a path MTU of 256, 2^19 at 4096
	maxSlack = 1<<23 - 1<<19
)

// horizon is how long a sender may not know of an acknowledgement that the capture
// has seen, as it was lost after the capture point: longer than a few timeouts of
// adapters.
const horizon = 8 * time.Second

// A life is a run of requests whose PSNs follow one another, modulo 2^24: what
// one queue pair sends to another from the moment that they are connected until
// one of them is used again.
//
//	 floor         acked             next       next+slack
//	-|-------------|-----------------|----------|--------
//	 may be sent   repeats and what  in order
//	 again         is late
//
// After a NAK, an RNR NAK or a timeout, a sender repeats all requests from the last
// one that it knows to be acknowledged. Those may include some whose
// acknowledgement the capture has seen, if it crossed a timeout or was lost. So
// requests between floor and next are no sign of another life. A new connection
// whose first PSN happens to fall there differs from repeats only in its answers.
type life struct {
	next   uint32 // expected next
	slack  uint32 // how much further that may be: a READ uses a PSN for each response, of unknown size; see inOrder
	floor  uint32 // the first PSN that may be sent again
	acked  uint32 // the last PSN that an answer covers; at first the one before the first request
	before uint32 // acked at the moment turned
	first  uint32 // PSN of the first request
	row    uint32 // the requests from this PSN to next were seen, but for a few: no READ spans it
	turned int32  // moment at which the current horizon began

	requests  uint16 // requests seen, at most 65,535; 0: next is what CM announced, or is not known
	transport bth.Transport
	known     bool // next is set
	answered  bool // an answer has been seen
}

// announce returns the life that is to begin with this PSN, as CM says.
func announce(psn uint32, t bth.Transport) life {
	before := (psn - 1) & psnMask
	return life{next: psn, floor: psn, first: psn, row: psn, acked: before, before: before, transport: t, known: true}
}

// begin returns the life that begins, as far as is known, with this request.
// Requests just before it may still come late, or again.
func begin(o *Observation, mtu uint16, now int32) life {
	l := announce(o.PSN, o.Opcode.Transport())
	l.floor = (o.PSN - nearby) & psnMask
	l.turned = now
	l.take(o, mtu, now)
	return l
}

// answered returns the life that is known, so far, only by an answer, and by the
// requests of its flow: in a long network many are under way when the first answer
// comes. f is nil where they are not known.
func answered(o *Observation, f *open, now int32) life {
	l := announce((o.PSN+1)&psnMask, o.Opcode.Transport())
	l.floor = (o.PSN - repeats) & psnMask
	l.turned, l.requests = now, 1
	l.answer(o)
	if f != nil && f.leads(l.next) {
		l.next = f.next
	}
	return l
}

// contains tells whether a request with this PSN may belong to the life. What a READ spans does not, unless it is near
// the last answer or next: see nearAnswered.
func (l *life) contains(psn uint32, t bth.Transport) bool {
	if !l.known || t != l.transport {
		return false
	}
	if d := distance(l.next, psn); d < 0 {
		return d >= l.lowest() && (d >= -nearby || l.seen(d) || l.nearAnswered(d))
	} else {
		return l.inOrder(d, late) || l.answered && (l.inOrder(d, nearby) || l.nearAnswered(d))
	}
}

// inOrder tells whether a request this far ahead of next comes where one is expected, or no further than reach behind
// that: at next, and after a READ where its responses may end. For each path MTU, 4096 to 256, that is one PSN, which
// slack gives but for 15 more or less. In between is at most a READ that is tried again, from the first response that
// is missing: were anything expected there, an attacker who has forged a long READ would make it look as if it belonged
// to the life.
func (l *life) inOrder(d, reach int32) bool {
	if d <= reach {
		return true
	}
	for mtus := int32(1); mtus < 16 && l.slack > 0; mtus = 2*mtus + 1 { // 1, 3, 7, 15: how many times its PSNs at 4096
		if end := int32(l.slack) / 15 * mtus; end-late <= d && d <= end+reach {
			return true
		}
	}
	return false
}

// lowest returns how far from next the first request is that may be sent again,
// a negative distance.
func (l *life) lowest() int32 {
	if l.transport == bth.TransportUC { // UC does not retransmit
		return max(distance(l.next, l.floor), -late)
	}
	lowest := distance(l.next, l.floor)
	if l.answered {
		return max(lowest, distance(l.next, l.acked)-repeats)
	}
	return max(lowest, -window)
}

// take records a request that the life contains.
func (l *life) take(o *Observation, mtu uint16, now int32) {
	least, most := o.psns(mtu)
	end := (o.PSN + least) & psnMask
	if further := distance(l.next, end); l.inOrder(distance(l.next, o.PSN), late) && further > 0 {
		l.next, l.slack = end, min(most-least, maxSlack)
		if further > 2*late {
			l.row = end
		}
	}
	l.requests = min(l.requests, 1<<16-2) + 1
	if !within(horizon, l.turned, now) {
		if distance(l.floor, l.before) >= 0 {
			l.floor = (l.before + 1) & psnMask
		}
		l.before, l.turned = l.acked, now
	}
	for _, psn := range [...]*uint32{&l.floor, &l.acked, &l.before, &l.row} {
		if distance(*psn, l.next) > span {
			*psn = (l.next - span) & psnMask
		}
	}
}

// nearAnswered tells whether the PSN this far from next is not far beyond the last that an answer covers. A READ spans
// up to eight million PSNs, none of which was seen: an attacker who has forged one would make what is anywhere among
// them look as if it belonged to the life. Real responses follow one another, and so do repeats of requests, from the
// last answer on. Its distance from there may be more than half of all PSNs, which only a sum of two can be.
func (l *life) nearAnswered(d int32) bool { return distance(l.acked, l.next)+d <= nearby }

// seen tells whether the PSN this far from next is among requests that were seen, as no READ spans it. In a long
// network many of these are under way, and all of them may be sent again.
func (l *life) seen(d int32) bool { return distance(l.next, l.row) <= d && d < 0 }

// answers tells whether an answer with this PSN is about requests of the life that were seen, or near the last answer.
func (l *life) answers(psn uint32, t bth.Transport) bool {
	d := distance(l.next, psn)
	return l.spans(psn, t) && (l.seen(d) || l.nearAnswered(d))
}

// spans tells whether an answer with this PSN is about requests of the life, seen or not.
func (l *life) spans(psn uint32, t bth.Transport) bool {
	if l.requests == 0 || t != l.transport {
		return false
	}
	d := distance(l.next, psn)
	return d < int32(l.slack) && d >= l.lowest()-1
}

// ahead tells whether an answer with this PSN is about requests of the life beyond
// next, which the nearby limit kept from moving it.
func (l *life) ahead(psn uint32, t bth.Transport) bool {
	d := distance(l.next, psn)
	return l.requests > 0 && t == l.transport && 0 <= d && d <= nearby
}

// answer records what an answer acknowledges: all up to its PSN, or for a NAK all
// before it.
func (l *life) answer(o *Observation) {
	psn := o.PSN
	if o.refuses() {
		psn = (psn - 1) & psnMask
	}
	if l.answered = true; distance(l.acked, psn) > 0 {
		l.acked = psn
	}
	if distance(l.next, psn) >= 0 && l.slack == 0 {
		l.next = (psn + 1) & psnMask
	}
}

const psnMask = bth.MaxPSN

// distance returns how far PSN b is beyond a: -2^23 to 2^23-1.
func distance(a, b uint32) int32 { return int32(bth.ComparePSN(b, a)) }
