package flows

import (
	"time"

	"github.com/rocecn/rocecn/bth"
)

// A retriedRequest is a request that the sender retransmitted after a timeout. A receiver answers
// each copy that arrives: a request with as many answers as copies was not lost, the timeout was too
// short.
type retriedRequest struct {
	psn      uint32
	sent     uint8 // copies, up to manyCopies
	answered uint8 // answers, at most sent
	timed    uint8 // copies with a round trip time that is counted or cannot be
	read     bool
	timeouts uint32 // retransmissions after a timeout that its answers show to be spurious
	// at has the time of each copy, or 0 if it is unknown, and for an answered copy the round trip
	// time; both in nanoseconds.
	at [maxCopies]int64
}

const (
	maxCopies  = 8 // as adapters retransmit at most 7 times
	manyCopies = maxCopies + 1
	maxRetried = 64 // requests remembered for each flow; the oldest one is overwritten
)

// retries are the requests of a connection that were retransmitted after a timeout. It is allocated for
// flows with such requests only.
type retries struct {
	ring  []retriedRequest // at most maxRetried
	n     uint32           // number of requests stored so far
	plain uint32           // timeouts of requests that ask for no answer, since the last one that asks for one

	connection uint64 // PSN.Connections of the requests
	spurious   uint64 // of overwritten requests and of earlier connections
	timed      uint64 // round trip times counted

	last lastRetry
}

// A lastRetry is the request that the sender retransmits again and again, as long as nothing answers
// it.
type lastRetry struct {
	set     bool
	psn     uint32
	retries uint32
	frame   uint64 // of the last copy
	at      int64  // time of the last copy
	timeout int64  // time between the last two copies
}

// GaveUp describes a request that was retransmitted without an answer until the flow ended. The last
// timeout was at least 8.192 µs, and the capture continues for twice as long. If the flow never had an
// answer, other flows had some, and Retries is at least 3.
type GaveUp struct {
	Frame   uint64 `json:"frame"`   // number of the frame with the last copy
	Retries uint64 `json:"retries"` // copies after the first one
}

// forgetTimes forgets the times of all requests. Their answers still count.
func (r *retries) forgetTimes() {
	all := r.stored()
	for i := range all {
		all[i].at = [maxCopies]int64{}
	}
	r.last.set = false
}

func (r *retries) stored() []retriedRequest { return r.ring }

func (r *retries) find(psn uint32) *retriedRequest {
	all := r.stored()
	for i := range all {
		if all[i].psn == psn {
			return &all[i]
		}
	}
	return nil
}

// add stores a request, of which one copy was sent at a time, or 0 if that is unknown.
func (r *retries) add(psn uint32, sent int64) *retriedRequest {
	if len(r.ring) < maxRetried {
		r.ring = append(r.ring, retriedRequest{})
	}
	e := &r.ring[r.n%maxRetried]
	if r.n >= maxRetried {
		r.spurious += e.spurious()
	}
	r.n++
	*e = retriedRequest{psn: psn, sent: 1}
	e.at[0] = sent
	return e
}

// spurious returns the number of retransmissions that were not needed, as far as the answers show it.
func (e *retriedRequest) spurious() uint64 {
	if e.sent > maxCopies || e.answered < e.sent {
		return 0
	}
	return uint64(e.timeouts)
}

func (e *retriedRequest) addCopy(at int64) {
	if e.sent < maxCopies {
		e.at[e.sent] = at
	}
	e.sent = min(e.sent+1, manyCopies)
}

// addAnswer matches an answer with the oldest copy that has none. With at 0 it gives no round trip
// time.
func (e *retriedRequest) addAnswer(at int64) {
	if e.answered >= e.sent || e.answered == maxCopies {
		return
	}
	sent := &e.at[e.answered]
	if *sent != 0 && at != 0 {
		*sent = max(at-*sent, 1)
	} else {
		*sent = 0
	}
	e.answered++
}

// countTimes counts the round trip times of all copies once each copy has its answer, and returns
// their number.
func (e *retriedRequest) countTimes(h *Histogram) (n uint64) {
	if e.answered < e.sent {
		return 0
	}
	for ; e.timed < e.answered; e.timed++ {
		if d := e.at[e.timed]; d != 0 {
			h.Add(time.Duration(d))
			n++
		}
	}
	return n
}

// spuriousNow returns the number of spurious retransmissions of the connection so far.
func (r *retries) spuriousNow() uint64 {
	if r == nil {
		return 0
	}
	n := r.spurious
	all := r.stored()
	for i := range all {
		n += all[i].spurious()
	}
	return n
}

// timesNow returns the number of round trip times counted so far.
func (r *retries) timesNow() uint64 {
	if r == nil {
		return 0
	}
	return r.timed
}

// beginConnection forgets the requests of the previous connection.
func (r *retries) beginConnection(connection uint64) {
	if r.connection != connection {
		*r = retries{ring: r.ring[:0], connection: connection, spurious: r.spuriousNow(), timed: r.timed}
	}
}

// A retry is a retransmitted request.
type retry struct {
	p        *Packet
	cause    RetransmissionCause
	covered  bool  // by an answer before
	first    int64 // time of its first copy, or 0 if it is unknown
	previous int64 // time of the request before it
	at       int64
	frame    uint64
}

// recordRetry records a retransmission. Those with another cause than a timeout count as copies of
// requests that were retransmitted after one.
func (t *Table) recordRetry(f *flow, h *history, one *retry) {
	if h.retries == 0 && one.cause != CauseTimeout {
		return
	}
	r := t.retries.allocate(&h.retries)
	r.beginConnection(f.sequence.counts.Connections)
	o, psn, timeouts := &roles[one.p.pkt.Opcode], one.p.pkt.PSN, uint32(0)
	if one.cause == CauseTimeout {
		timeouts = 1
		if h.isFirstInRun() { // the sender went back here
			r.last.recordCopy(psn, one)
		}
	}
	if !one.p.pkt.AckReq && !o.asks {
		r.plain += timeouts
		return
	}
	e := r.find(psn)
	if e == nil {
		if timeouts == 0 {
			return
		}
		e = r.add(psn, one.first)
		if e.read = o.message == MessageRead; one.covered {
			e.addAnswer(0)
			e.timed = 1 // its round trip time was counted when the answer came
		}
	}
	e.addCopy(one.at)
	if timeouts > 0 {
		e.timeouts += 1 + r.plain
		r.plain = 0
	}
}

// recordCopy records that the sender went back to a request.
func (l *lastRetry) recordCopy(psn uint32, one *retry) {
	if !l.set || l.psn != psn {
		*l = lastRetry{set: true, psn: psn, at: one.previous}
	}
	l.retries++
	l.frame, l.timeout, l.at = one.frame, one.at-l.at, one.at
}

// answerRetried records an answer for the requests that were retransmitted. covered is the highest
// PSN that it covers, and advances reports whether no earlier answer covered that.
func (t *Table) answerRetried(f *flow, h *history, a *reply, covered uint32, advances bool) {
	r := t.retries.lookUp(h.retries)
	if r.connection != f.sequence.counts.Connections {
		return
	}
	o, isNAK := &roles[a.opcode], a.syndromeType() != bth.SyndromeACK
	if l := &r.last; l.set && (bth.ComparePSN(covered, l.psn) >= 0 || isNAK && a.psn == l.psn) {
		l.set = false
	}
	if o.message == MessageRead && !o.firstResponse {
		return
	}
	at := a.at
	if isNAK {
		at = 0
	}
	all, oldest := r.stored(), (*retriedRequest)(nil)
	for i := range all {
		e := &all[(r.n+uint32(i))%uint32(len(all))] // the oldest first
		d := bth.ComparePSN(e.psn, covered)
		switch {
		case d > 0 || e.answered == e.sent || e.read != (o.message == MessageRead) || e.read && d != 0:
		case advances && e.answered == 0 || e.read:
			t.countRetried(f, r, e, at)
		case !advances && !isNAK && (oldest == nil || d == 0):
			oldest = e
		}
	}
	if oldest != nil { // the receiver answers a copy of an older request with the last PSN that it received
		t.countRetried(f, r, oldest, at)
	}
}

func (t *Table) countRetried(f *flow, r *retries, e *retriedRequest, at int64) {
	e.addAnswer(at)
	if e.answered == e.sent {
		r.timed += e.countTimes(t.histograms.allocate(&f.rtt))
	}
}

// minUnanswered is the number of retransmissions of a request from which a flow without any answer was
// given up: the last of fewer copies may have had an answer that was not captured.
const minUnanswered = 3

// leastTimeout is the shortest timeout of the InfiniBand specification in nanoseconds: 4.096 µs times
// two. A retransmission that comes earlier has another cause, which was not captured.
const leastTimeout = 8192

// gaveUp returns the request that the sender of a flow gave up, or nil. The capture must continue
// for twice the last timeout, in which the sender would have retransmitted again.
func (t *Table) gaveUp(f *flow) *GaveUp {
	h := t.histories.lookUp(f.history)
	if h == nil {
		return nil
	}
	r := t.retries.lookUp(h.retries)
	if r == nil || r.connection != f.sequence.counts.Connections || !r.last.set || r.last.timeout < leastTimeout ||
		t.latest-r.last.at < 2*r.last.timeout {
		return nil
	}
	if !f.sequence.cover.any && (!t.capture.answered || r.last.retries < minUnanswered) {
		return nil // its answers may not be in the capture
	}
	return &GaveUp{Frame: r.last.frame, Retries: uint64(r.last.retries)}
}
