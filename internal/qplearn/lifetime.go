package qplearn

import (
	"time"

	"github.com/rocecn/rocecn/bth"
)

// The largest distances of a request from the PSN expected next within the same lifetime.
const (
	late = 64 // either way, and moves that: reordering, a few packets that the capture lost
	// beyond it, once answered; only an answer moves it there, as the PSN may be an attacker's guess
	nearby           = 1 << 11
	maxRetransmitted = 1 << 8  // before the acknowledged PSN, as acknowledgements may be lost after the capture point
	window           = 1 << 16 // before it, if no answer shows the acknowledged PSN
	span             = 1 << 22 // distances are kept below this, so that they are unambiguous modulo 2^24
	// that of a READ of 2 GiB, the longest: 2^23 responses at a path MTU of 256, 2^19 at 4096
	maxSlack = 1<<23 - 1<<19
)

// horizon is the longest time until a sender knows of an acknowledgement that was captured but lost
// after the capture point: longer than a few timeouts of adapters.
const horizon = 8 * time.Second

// A lifetime is a run of requests with consecutive PSNs, modulo 2^24: the requests of one queue pair to
// another from their connection until one of them is reused.
//
//	 floor         acked             next       next+slack
//	-|-------------|-----------------|----------|--------
//	 may be        retransmitted     in order
//	 retransmitted or late
//
// After a NAK, an RNR NAK or a timeout, a sender retransmits all requests after the last one that
// it knows to be acknowledged. Those may include some that were acknowledged in the capture, if the
// acknowledgement crossed a timeout or was lost. So requests in the first two ranges are no sign of
// another lifetime. A new connection with a first PSN there differs from retransmissions only in its
// answers.
type lifetime struct {
	next   uint32 // expected next
	slack  uint32 // largest distance from next to the PSN after a READ with responses of unknown size; see inOrder
	floor  uint32 // the first PSN that may be retransmitted
	acked  uint32 // the last PSN that an answer covers, at first the one before the first request; for UC see reach
	before uint32 // acked at the moment turned
	first  uint32 // PSN of the first request
	row    uint32 // almost all requests from this PSN to next were seen: no READ spans this range
	turned int32  // moment at which the current horizon began

	requests  uint16 // requests seen, at most 65,535; 0: next is from CM, or is not known
	transport bth.Transport
	known     bool // next is set
	answered  bool // an answer has been seen
}

// announce returns the lifetime that is to begin with this PSN, as CM says.
func announce(psn uint32, t bth.Transport) lifetime {
	before := (psn - 1) & psnMask
	return lifetime{next: psn, floor: psn, first: psn, row: psn, acked: before, before: before,
		transport: t, known: true}
}

// begin returns the lifetime that begins, as far as is known, with this request.
// Requests just before it may still come late, or again.
func begin(o *Observation, mtu uint16, now int32) lifetime {
	l := announce(o.PSN, o.Opcode.Transport())
	l.floor = (o.PSN - nearby) & psnMask
	l.turned = now
	l.recordRequest(o, mtu, now)
	return l
}

// answered returns the lifetime that is known, so far, only by an answer, and by the
// requests of its flow: in a long network many are under way when the first answer
// comes. f is nil where they are not known.
func answered(o *Observation, f *open, now int32) lifetime {
	l := announce((o.PSN+1)&psnMask, o.Opcode.Transport())
	l.floor = (o.PSN - maxRetransmitted) & psnMask
	l.turned, l.requests = now, 1
	l.answer(o)
	if f != nil && f.leads(l.next) {
		l.next = f.next
	}
	return l
}

// contains reports whether a request with this PSN may belong to the lifetime. PSNs that a READ spans
// do not, unless they are near the last answer or next: see nearAnswered.
func (l *lifetime) contains(psn uint32, t bth.Transport) bool {
	if !l.known || t != l.transport {
		return false
	}
	if d := distance(l.next, psn); d < 0 {
		return d >= l.lowest() && (d >= -nearby || l.seen(d) || l.nearAnswered(d))
	} else {
		return l.inOrder(d, late) || l.answered && (l.inOrder(d, nearby) || l.nearAnswered(d)) ||
			t == bth.TransportUC && (d <= nearby || l.continues(psn))
	}
}

// inOrder reports whether a request at this distance after next is at an expected PSN, or at most
// reach after one: at next, and after a READ at the possible ends of its responses. There is one
// possible end for each path MTU, 4096 to 256, which slack gives with an error of at most 15. In
// between there is at most a READ that is retried, from the first response that is missing: if any
// PSN were expected there, the requests of another connection would seem to belong to the lifetime
// after an attacker has forged a long READ.
func (l *lifetime) inOrder(d, reach int32) bool {
	if d <= reach {
		return true
	}
	for mtus := int32(1); mtus < 16 && l.slack > 0; mtus = 2*mtus + 1 { // 1, 3, 7, 15 times its PSNs at 4096
		if end := int32(l.slack) / 15 * mtus; end-late <= d && d <= end+reach {
			return true
		}
	}
	return false
}

// lowest returns the distance from next to the first request that may be retransmitted, a negative
// number.
func (l *lifetime) lowest() int32 {
	if l.transport == bth.TransportUC { // UC does not retransmit
		return max(distance(l.next, l.floor), -late)
	}
	lowest := distance(l.next, l.floor)
	if l.answered {
		return max(lowest, distance(l.next, l.acked)-maxRetransmitted)
	}
	return max(lowest, -window)
}

// recordRequest records a request that the lifetime contains, and reports whether its PSN is one that follows those
// seen, or comes before them: see reaches.
func (l *lifetime) recordRequest(o *Observation, mtu uint16, now int32) (expected bool) {
	least, most := o.psns(mtu)
	end := (o.PSN + least) & psnMask
	expected = l.reaches(o.PSN)
	if further := distance(l.next, end); expected && further > 0 {
		l.next, l.slack = end, min(most-least, maxSlack)
		if further > 2*late {
			l.row = end
		}
	}
	l.requests = min(l.requests, 1<<16-2) + 1
	if l.transport != bth.TransportUC && !within(horizon, l.turned, now) {
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
	return expected
}

// reaches reports whether a request that the lifetime contains moves next. It does not if it is more than late after
// next, as its PSN may be an attacker's guess. UC has no answers: there the second of two such requests does, and acked
// is the PSN of the first one.
func (l *lifetime) reaches(psn uint32) bool {
	inOrder := l.inOrder(distance(l.next, psn), late)
	if l.transport != bth.TransportUC {
		return inOrder
	}
	continues := l.continues(psn)
	l.acked = psn
	return inOrder || continues
}

// continues reports whether a request of UC follows another one that is more than late after next.
func (l *lifetime) continues(psn uint32) bool {
	after := distance(l.acked, psn)
	return distance(l.next, l.acked) > late && 0 < after && after <= nearby
}

// isNear reports whether packets of two lifetimes could not be distinguished by their PSNs.
func (l *lifetime) isNear(other *lifetime) bool {
	const apart = 2 * nearby
	d, acked := distance(l.next, other.next), distance(l.acked, other.next)
	return l.known && other.known &&
		(-apart <= d && d <= apart || -apart <= acked && acked <= apart || l.seen(d) || d > 0 && l.inOrder(d, apart))
}

// nearAnswered reports whether the PSN at this distance from next is at most nearby after the last
// PSN that an answer covers. A READ spans up to eight million PSNs, none of which was seen: with a
// forged READ, packets anywhere among them would seem to belong to the lifetime. Real responses have
// consecutive PSNs, and so do retransmitted requests, from the last answer on. The distance from
// the last answer may be more than half of all PSNs, which only a sum of two distances can express.
func (l *lifetime) nearAnswered(d int32) bool { return distance(l.acked, l.next)+d <= nearby }

// seen reports whether the PSN at this distance from next is among requests that were seen, as no
// READ spans it. In a long network many of these are in flight, and all of them may be
// retransmitted.
func (l *lifetime) seen(d int32) bool { return distance(l.next, l.row) <= d && d < 0 }

// answers reports whether an answer with this PSN is about requests of the lifetime that were seen, or
// near the last answer.
func (l *lifetime) answers(psn uint32, t bth.Transport) bool {
	d := distance(l.next, psn)
	return l.spans(psn, t) && (l.seen(d) || l.nearAnswered(d))
}

// spans reports whether an answer with this PSN is about requests of the lifetime, seen or not.
func (l *lifetime) spans(psn uint32, t bth.Transport) bool {
	if l.requests == 0 || t != l.transport {
		return false
	}
	d := distance(l.next, psn)
	return d < int32(l.slack) && d >= l.lowest()-1
}

// ahead reports whether an answer with this PSN is about requests of the lifetime after next, if the
// nearby limit kept them from moving next.
func (l *lifetime) ahead(psn uint32, t bth.Transport) bool {
	d := distance(l.next, psn)
	return l.requests > 0 && t == l.transport && 0 <= d && d <= nearby
}

// answer records the PSNs that an answer acknowledges: all up to its PSN, or for a NAK all before
// it.
func (l *lifetime) answer(o *Observation) {
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

// distance returns the distance from PSN a to b: -2^23 to 2^23-1.
func distance(a, b uint32) int32 { return int32(bth.ComparePSN(b, a)) }
