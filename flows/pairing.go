package flows

import (
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/qplearn"
)

// A pairing is what is known of the queue pair at the other end of a stream: the
// stream of the other direction goes to it. A [qplearn.Map] decides it; answers that
// come before it can are kept, and counted once it has.
type pairing struct {
	with  ref // the stream to the other queue pair of a connection
	from  qplearn.Basis
	ended bool       // a DREQ ended the connection
	ids   [2]uint32  // communication ids of the exchange, the requester's first
	next  connection // the one that CM announced, until data shows that it is used

	// What the map need not be shown: see skips.
	skipped uint8
	shown   int64 // nanoseconds since 1970: when it was shown a packet last

	// The source of the flow, in the last of its lives of which that is known.
	srcQP   uint32
	srcQPBy qplearn.Basis // 0: it is not known

	// Of UD: the queue pair that requests come from, and for that one the flow
	// that its requests make.
	source      uint32
	hasSource   bool // source is known
	manySources bool // there are several sources
	datagram    ref
	manyFlows   bool // there are several flows
}

// skipLearning tells whether the map need not be shown a packet of a connection that it
// knows: requests and answers in order say nothing new, and a few that it does
// not see are to it what a capture loses.
func (p *pairing) skipLearning(at int64) bool {
	const few, soon = 48, 100_000_000
	if p.with.id == 0 || p.ended || p.next.with.id != 0 || p.skipped >= few || at-p.shown > soon || at < p.shown {
		p.skipped, p.shown = 0, at
		return false
	}
	p.skipped++
	return true
}

// expectsAnswer tells whether an answer with this PSN may be one to requests of the
// flow's present life, a few that the capture lost among them.
func (s *stream) expectsAnswer(psn uint32) bool {
	d := bth.ComparePSN(psn, s.flow.sequence.next)
	return -lifeDistance <= d && d < 1<<11+int(s.flow.sequence.slack)
}

// learnPacket shows a packet to the map, and joins the streams of the pairs that the map
// learns from it.
func (t *Table) learnPacket(p *Packet, at int64) {
	t.lastLearned = p.pkt.PSN
	t.pairs.Learn(&p.pkt, time.Unix(0, at))
	for k, pair := range t.pairs.Learned() {
		if pair.From == qplearn.BasisCM || pair.From == qplearn.BasisUD {
			continue // until its requests come; datagrams say it themselves
		}
		t.pairStreams(k, pair)
	}
}

// pairStreams makes partners of a flow's stream and that of its source.
func (t *Table) pairStreams(forth *key, pair *qplearn.Entry) {
	back := forth.Reversed(pair.SrcQP)
	a := t.streamOf(forth)
	if with := t.streamByRef(a.pairing.with); with != nil && *t.keyOfStream(with) == back && a.pairing.from == pair.From {
		return
	}
	b := t.streamSparing(a, &back)
	if a == b { // a host and its only queue pair
		return
	}
	t.joinStreams(a, b, pair.From)
}

// sentBy records that a queue pair sends a flow.
func (t *Table) sentBy(s *stream, pair *qplearn.Entry) {
	p := &s.pairing
	known := p.srcQP == pair.SrcQP && p.srcQPBy == pair.From && p.from == pair.From && p.with.id != 0
	if known || pair.From == qplearn.BasisUD {
		return
	}
	t.pairStreams(t.keyOfStream(s), pair)
	p.srcQP, p.srcQPBy = pair.SrcQP, pair.From
}

// partnerOf returns the stream to the other queue pair of the connection, nil if
// that is not known.
func (t *Table) partnerOf(s *stream) *stream { return t.streamByRef(s.pairing.with) }

// streamAbout returns the stream whose flow the answers in s are about, nil if that
// is not known.
func (t *Table) streamAbout(s *stream) *stream {
	if with := t.streamByRef(s.pairing.with); with != nil {
		return with
	}
	if s.pairing.manyFlows {
		return nil
	}
	return t.streamByRef(s.pairing.datagram)
}

// joinStreams makes two streams partners: answers that waited in one count for the other.
// What they had for partners before stays with those.
func (t *Table) joinStreams(a, b *stream, from qplearn.Basis) {
	again := t.partnerOf(a) == b
	both := [...][2]*stream{{a, b}, {b, a}}
	for _, of := range both {
		if s, with := of[0], t.partnerOf(of[0]); with != nil && with != of[1] {
			t.settleAnswers(s)
			t.unpairStream(s)
			s.answers, s.doubted = s.doubted, Answers{}
		}
	}
	for _, of := range both {
		s, p := of[0], &of[0].pairing
		p.with, p.from, p.ended = of[1].ref(), from, false
		if s.flow.Packets > 0 && from != qplearn.BasisCM {
			p.srcQP, p.srcQPBy = t.keyOfStream(of[1]).QP&maxQP, from
		}
		t.markTouched(s)
	}
	if again {
		return
	}
	for _, of := range both {
		t.setMTU(of[0], of[1].flow.MTU)
	}
	for _, of := range both {
		t.replayEarly(of[0], of[1])
	}
}

// unpairStream forgets a stream's partner. Answers that were not settled before count for
// the next partner.
func (t *Table) unpairStream(s *stream) {
	for _, one := range [...]*stream{t.streamByRef(s.pairing.with), s} {
		if one != nil {
			one.pairing.with, one.pairing.from, one.pairing.ended = ref{}, 0, false
		}
	}
}

// settleAnswers counts the answers in s, and those about its flow, for good: for the flows
// that they are about, as far as that is known now.
func (t *Table) settleAnswers(s *stream) {
	owner := t.ownerOf(s)
	if with := t.partnerOf(s); with != nil {
		with.moveAnswers(s)
	}
	s.moveAnswers(owner)
}

// ownerOf returns the stream whose flow the answers in s count for, nil if that is
// not known: none of a partner that was given up.
func (t *Table) ownerOf(s *stream) *stream {
	if s.pairing.from == 0 { // of datagrams, perhaps
		return t.streamAbout(s)
	}
	return t.partnerOf(s)
}

// moveAnswers counts the answers in s for good: for a flow if it has requests, else as
// strays.
func (s *stream) moveAnswers(about *stream) {
	if about != nil && about.flow.Packets > 0 {
		about.settled.addCounts(&s.answers)
	} else {
		s.stray.addCounts(&s.answers)
	}
	s.answers = Answers{}
}

// recordSource records that a datagram in s came from this queue pair.
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
