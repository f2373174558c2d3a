package flows

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/qplearn"
)

// The [qplearn.Map] matches REQ with REP and recognizes the end of a connection. It is stricter
// than Table about the beginning: a Map is used to send notifications, so a single REP is not
// enough to displace a connection in use. Table can wait: later packets show whether the
// announcement was true, and only the counts of this flow depend on it.

// recordCM records the connections that the map has learned or ended with this message.
func (t *Table) recordCM(p *Packet) {
	if c, ok := t.pairs.Accepted(); ok {
		t.recordAccepted(p, &c)
	}
	if k, ok := t.pairs.Ended(); ok {
		t.recordEnded(&k)
	}
}

// recordAccepted records a REP that accepts a connection. The REP has the first PSN of the
// requester's packets, the REQ that of the responder's.
func (t *Table) recordAccepted(rep *Packet, c *qplearn.Connection) {
	forth := rep.pkt.Flow.Reversed(c.Responder.QP)
	ids := [2]uint32{c.Requester.CommID, c.Responder.CommID}
	if s := t.findStream(&forth); s != nil && (s.pairing.ids == ids || s.pairing.announced.ids == ids) {
		return // retransmission of REQ and REP
	}
	back := forth.Reversed(c.Requester.QP)
	a := t.streamOf(&forth)
	b := t.streamSparing(a, &back)
	if a == b { // a host that connects its queue pair to itself
		return
	}
	a.pairing.announced = announcedConnection{b.ref(), c.Responder.PSN, ids, c.MTU}
	b.pairing.announced = announcedConnection{a.ref(), c.Requester.PSN, ids, c.MTU}
	if !a.flow.sequence.seen && !b.flow.sequence.seen {
		t.beginConnection(a)
	}
}

// An announcedConnection is the part of a REQ and its REP that concerns one stream.
type announcedConnection struct {
	stream ref    // stream of the other direction
	psn    uint32 // first PSN
	ids    [2]uint32
	mtu    uint16 // path MTU; 0 if unknown
}

// checkAnnounced checks a request with PSN p against the connection announced by CM. If it belongs
// to that connection, the flow's next connection begins. If it continues the previous one, the
// announcement is discarded as forged.
func (t *Table) checkAnnounced(s *stream, p uint32) {
	c, q := &s.pairing.announced, &s.flow.sequence
	goesOn := q.seen && p == q.next
	switch d := bth.ComparePSN(p, c.psn); {
	case d == 0 || d > 0 && d <= connectionDistance && !goesOn:
		t.beginConnection(s)
	case goesOn:
		if partner := t.streamByRef(c.stream); partner != nil && partner.pairing.announced.ids == c.ids {
			partner.pairing.announced = announcedConnection{}
		}
		*c = announcedConnection{}
	}
}

// beginConnection begins the connection announced for s, in both directions,
// unless another connection was announced for the other direction meanwhile.
func (t *Table) beginConnection(s *stream) {
	c := s.pairing.announced
	partner := t.streamByRef(c.stream)
	if partner == nil {
		s.pairing.announced = announcedConnection{}
		return
	}
	same := t.partnerOf(s) == partner
	t.beginAnnouncedConnection(s)
	if partner.pairing.announced.ids == c.ids {
		t.beginAnnouncedConnection(partner)
	}
	if same { // the same queue pairs were connected again
		t.joinStreams(s, partner, qplearn.BasisCM)
	}
	if c.mtu != 0 {
		s.mtu, partner.mtu = c.mtu, c.mtu
	}
}

// beginAnnouncedConnection begins the connection announced by CM.
func (t *Table) beginAnnouncedConnection(s *stream) {
	t.settleAnswers(s)
	t.unpairStream(s)
	t.dropEarly(s)
	p, f := &s.pairing, t.addFlow(s)
	p.ids = p.announced.ids
	s.mtu = 0
	f.opening.set = false
	f.sequence.beginConnection(p.announced.psn, t.histories.lookUp(f.history))
	if r := t.responses.lookUp(f.responses); r != nil {
		r.seen = false
		r.idents.reset()
	}
	p.announced = announcedConnection{}
}

// recordEnded records the end of a connection. Answers under way still belong to it.
func (t *Table) recordEnded(k *key) {
	s := t.findStream(k)
	if s == nil {
		return
	}
	if partner := t.streamByRef(s.pairing.partner); partner != nil {
		s.pairing.ended, partner.pairing.ended = true, true
	}
}
