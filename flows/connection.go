package flows

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/qplearn"
)

// Which REQ and REP belong together, and which message ends their connection, says
// the [qplearn.Map]. When the connection begins, the two see differently: a Map looks
// ahead, and needs proof before anybody sends by what it says, so that requests
// which one REP announced are not enough to displace a connection in use. Flows
// looks back: what comes later shows whether the announcement was true, and only
// the counts of this flow depend on it.

// recordCM records what the map makes of a message of connection management, which
// it was shown just now.
func (t *Table) recordCM(p *Packet) {
	if c, ok := t.pairs.Accepted(); ok {
		t.recordAccepted(p, &c)
	}
	if k, ok := t.pairs.Ended(); ok {
		t.recordEnded(&k)
	}
}

// recordAccepted records a REP that accepts a connection. It has the first PSN of the
// requester's packets, the REQ that of the responder's.
func (t *Table) recordAccepted(rep *Packet, c *qplearn.Connection) {
	forth := rep.pkt.Flow.Reversed(c.Responder.QP)
	ids := [2]uint32{c.Requester.CommID, c.Responder.CommID}
	if s := t.findStream(&forth); s != nil && (s.pairing.ids == ids || s.pairing.next.ids == ids) {
		return // both messages again
	}
	back := forth.Reversed(c.Requester.QP)
	a := t.streamOf(&forth)
	b := t.streamSparing(a, &back)
	if a == b { // a host and its only queue pair
		return
	}
	a.pairing.next = connection{b.ref(), c.Responder.PSN, ids, c.MTU}
	b.pairing.next = connection{a.ref(), c.Requester.PSN, ids, c.MTU}
	if !a.flow.sequence.seen && !b.flow.sequence.seen {
		t.beginConnection(a)
	}
}

// A connection is what a REQ and its REP said of a stream.
type connection struct {
	with ref    // the stream to the other queue pair
	psn  uint32 // the first that comes
	ids  [2]uint32
	mtu  uint16 // 0: not said
}

// checkAnnounced records a request with PSN p in a stream for which CM announced a
// connection. A request that belongs to it, and not to the life before, begins a
// new life; one that goes on with the life before shows that the exchange was
// forged, and harms nobody.
func (t *Table) checkAnnounced(s *stream, p uint32) {
	c, q := &s.pairing.next, &s.flow.sequence
	goesOn := q.seen && p == q.next
	switch d := bth.ComparePSN(p, c.psn); {
	case d == 0 || d > 0 && d <= lifeDistance && !goesOn:
		t.beginConnection(s)
	case goesOn:
		if with := t.streamByRef(c.with); with != nil && with.pairing.next.ids == c.ids {
			with.pairing.next = connection{}
		}
		*c = connection{}
	}
}

// beginConnection records that the connection is used that CM announced for s: a new
// life begins in both directions, unless CM has announced another one for the
// other direction since.
func (t *Table) beginConnection(s *stream) {
	c := s.pairing.next
	with := t.streamByRef(c.with)
	if with == nil {
		s.pairing.next = connection{}
		return
	}
	same := t.partnerOf(s) == with
	t.beginAnnouncedLife(s)
	if with.pairing.next.ids == c.ids {
		t.beginAnnouncedLife(with)
	}
	if same { // connected anew
		t.joinStreams(s, with, qplearn.BasisCM)
	}
	if c.mtu != 0 {
		s.flow.MTU, with.flow.MTU = c.mtu, c.mtu
	}
}

// beginAnnouncedLife begins the life that CM announced.
func (t *Table) beginAnnouncedLife(s *stream) {
	t.settleAnswers(s)
	t.unpairStream(s)
	t.dropEarly(s)
	p, f := &s.pairing, &s.flow
	p.ids = p.next.ids
	f.MTU = 0
	f.opening.set = false
	f.sequence.beginLife(p.next.psn, t.histories.lookUp(f.history))
	p.next = connection{}
}

// recordEnded records that the connection of a flow has ended. Answers on their way
// still belong to it.
func (t *Table) recordEnded(k *key) {
	s := t.findStream(k)
	if s == nil {
		return
	}
	if with := t.streamByRef(s.pairing.with); with != nil {
		s.pairing.ended, with.pairing.ended = true, true
	}
}
