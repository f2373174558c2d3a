package flows

import (
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/qplearn"
)

// A pairing is the association of a stream with the queue pair at its source, and so with the
// stream of the other direction. The [qplearn.Map] decides it. Earlier answers are stored and
// counted afterwards.
type pairing struct {
	partner   ref                 // stream to the other queue pair of the connection
	ids       [2]uint32           // communication IDs of the CM exchange, the requester's first
	announced announcedConnection // connection announced by CM, until data packets use it
	shown     int64               // last packet passed to the map, nanoseconds since 1970; see skipLearning

	// For UD: flow of requests from this stream's queue pair, and source queue pair of the requests.
	datagram ref
	source   uint32

	srcQP   uint32        // of the flow in the last connection for which it is known
	srcQPBy qplearn.Basis // 0 if srcQP is unknown

	basis       qplearn.Basis // of the partner
	skipped     uint8         // packets not passed to the map since the last one that was
	ended       bool          // a DREQ ended the connection
	hasSource   bool          // source is valid
	manySources bool          // requests have different sources
	manyFlows   bool          // there are several flows such as datagram
}

// skipLearning reports whether a packet of a known connection need not be passed to the map.
// Requests and answers in order give it no new information, and the few skipped packets look like
// capture losses.
func (p *pairing) skipLearning(at int64) bool {
	const few, soon = 48, 100_000_000
	if p.partner.id == 0 || p.ended || p.announced.stream.id != 0 || p.skipped >= few ||
		at-p.shown > soon || at < p.shown {
		p.skipped, p.shown = 0, at
		return false
	}
	p.skipped++
	return true
}

// expectsAnswer reports whether an answer with this PSN may belong to a request of the flow's
// current connection, allowing for a few requests that were not captured.
func (s *stream) expectsAnswer(psn uint32) bool {
	d := bth.ComparePSN(psn, s.flow.sequence.next)
	return -connectionDistance <= d && d < 1<<11+int(s.flow.sequence.slack)
}

// learnPacket passes a packet to the map, and pairs the streams of new connections.
func (t *Table) learnPacket(p *Packet, at int64) {
	t.lastLearned = p.pkt.PSN
	t.pairs.Learn(&p.pkt, time.Unix(0, at))
	for k, pair := range t.pairs.Learned() {
		if pair.From == qplearn.BasisCM || pair.From == qplearn.BasisUD {
			continue // wait for requests; datagrams name their source
		}
		t.pairStreams(k, pair)
	}
}

// pairStreams pairs a flow's stream with the stream to its source.
func (t *Table) pairStreams(forth *key, pair *qplearn.Entry) {
	back := forth.Reversed(pair.SrcQP)
	a := t.streamOf(forth)
	if partner := t.streamByRef(a.pairing.partner); partner != nil && *t.keyOfStream(partner) == back &&
		a.pairing.basis == pair.From {
		return
	}
	b := t.streamSparing(a, &back)
	if a == b { // a host that sends to its own queue pair
		return
	}
	t.joinStreams(a, b, pair.From)
}

// sentBy records the source queue pair of a flow.
func (t *Table) sentBy(s *stream, pair *qplearn.Entry) {
	p := &s.pairing
	known := p.srcQP == pair.SrcQP && p.srcQPBy == pair.From && p.basis == pair.From && p.partner.id != 0
	if known || pair.From == qplearn.BasisUD {
		return
	}
	t.pairStreams(t.keyOfStream(s), pair)
	p.srcQP, p.srcQPBy = pair.SrcQP, pair.From
}

// partnerOf returns the stream to the other queue pair of the connection, or nil if it is unknown.
func (t *Table) partnerOf(s *stream) *stream { return t.streamByRef(s.pairing.partner) }

// streamAbout returns the stream of the flow that the answers in s are about, or nil if it is
// unknown.
func (t *Table) streamAbout(s *stream) *stream {
	if partner := t.streamByRef(s.pairing.partner); partner != nil {
		return partner
	}
	if s.pairing.manyFlows {
		return nil
	}
	return t.streamByRef(s.pairing.datagram)
}

// joinStreams makes two streams partners, and counts the stored answers of each for the other.
// Counts about previous partners stay with those.
func (t *Table) joinStreams(a, b *stream, from qplearn.Basis) {
	again := t.partnerOf(a) == b
	both := [...][2]*stream{{a, b}, {b, a}}
	for _, of := range both {
		if s, partner := of[0], t.partnerOf(of[0]); partner != nil && partner != of[1] {
			t.settleAnswers(s)
			t.unpairStream(s)
			if doubted := s.takeDoubted(); doubted != (Answers{}) {
				*s.addAnswers() = doubted
			}
		}
	}
	for _, of := range both {
		s, p := of[0], &of[0].pairing
		p.partner, p.basis, p.ended = of[1].ref(), from, false
		if s.flow.hasData() && from != qplearn.BasisCM {
			p.srcQP, p.srcQPBy = t.keyOfStream(of[1]).QP&maxQP, from
		}
		t.markTouched(s)
	}
	if again {
		return
	}
	for _, of := range both {
		t.setMTU(of[0], of[1].mtu)
	}
	for _, of := range both {
		t.replayEarly(of[0], of[1])
	}
}

// unpairStream removes a stream's partner. Answers that are not settled count for the next partner.
func (t *Table) unpairStream(s *stream) {
	for _, one := range [...]*stream{t.streamByRef(s.pairing.partner), s} {
		if one != nil {
			one.pairing.partner, one.pairing.basis, one.pairing.ended = ref{}, 0, false
		}
	}
}

// settleAnswers assigns the answers in s, and those about its flow, to the flows known now.
func (t *Table) settleAnswers(s *stream) {
	owner := t.ownerOf(s)
	if partner := t.partnerOf(s); partner != nil {
		partner.moveAnswers(s)
	}
	s.moveAnswers(owner)
}

// ownerOf returns the stream of the flow that the answers in s count for, or nil if it is
// unknown or the partner was evicted.
func (t *Table) ownerOf(s *stream) *stream {
	if s.pairing.basis == 0 { // possibly datagrams
		return t.streamAbout(s)
	}
	return t.partnerOf(s)
}

// moveAnswers assigns the answers in s to the flow that they are about if it has requests, and
// counts them as unmatched otherwise.
func (s *stream) moveAnswers(about *stream) {
	if s.answers == nil || *s.answers == (Answers{}) {
		return
	}
	if about != nil && about.flow.hasData() {
		about.addSettled().addCounts(s.answers)
	} else {
		s.addOthers().stray.addCounts(s.answers)
	}
	*s.answers = Answers{}
}

// recordSource records the source queue pair of a datagram in s.
func (t *Table) recordSource(s *stream, qp uint32) {
	p := &s.pairing
	if p.hasSource && p.source == qp {
		return
	}
	if p.hasSource {
		p.manySources = true
		return
	}
	p.source, p.hasSource = qp, true
	k := t.keyOfStream(s).Reversed(qp)
	back := t.streamSparing(s, &k)
	switch b := &back.pairing; t.streamByRef(b.datagram) {
	case nil:
		b.datagram = s.ref()
		t.replayEarly(back, s)
	case s:
	default:
		b.manyFlows = true
	}
}
