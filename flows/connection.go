package flows

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/qpmap"
)

// opens are the REQs that no REP has answered yet, by addresses and
// communication id. One makes room for another when four newer ones have its
// bucket.
type opens struct{ buckets [][4]open }

const (
	openBuckets = 1 << 10
	openTime    = 60_000_000_000 // nanoseconds: after that another REQ may have the same communication id
)

// An open is a REQ.
type open struct {
	key      key // of the packet
	exchange qpmap.Exchange
	at       int64
	set      bool
	doubt    bool // another REQ with the same addresses and id says something else
}

// find returns the REQ with these addresses and communication id, nil without
// one.
func (o *opens) find(k *key, id uint32) *open {
	if o.buckets == nil {
		return nil
	}
	b := &o.buckets[fork(roadOf(k), uint64(id))%openBuckets]
	for i := range b {
		if x := &b[i]; x.set && x.exchange.Local == id && x.key == *k {
			return x
		}
	}
	return nil
}

func (o *opens) add(k *key, e *qpmap.Exchange, at int64) {
	if x := o.find(k, e.Local); x != nil {
		switch {
		case x.exchange == *e:
		case at-x.at > openTime:
			x.exchange, x.doubt = *e, false
		default:
			x.doubt = true
		}
		x.at = at
		return
	}
	if o.buckets == nil {
		o.buckets = make([][4]open, openBuckets)
	}
	b := &o.buckets[fork(roadOf(k), uint64(e.Local))%openBuckets]
	copy(b[1:], b[:3])
	b[0] = open{key: *k, exchange: *e, at: at, set: true}
}

// connect records a message of connection management.
func (t *Table) connect(p *Packet, at int64) {
	switch p.cm.Attribute {
	case cm.AttributeREQ:
		t.opens.add(&p.pkt, &p.cm, at)
	case cm.AttributeREP:
		t.accepted(p)
	case cm.AttributeDREQ:
		t.ended(p)
	}
}

// accepted records a REP. With the REQ that it answers it names both queue
// pairs and the first PSN of each direction: the requester's packets begin with
// the one in the REP, the responder's with the one in the REQ.
func (t *Table) accepted(p *Packet) {
	rep := &p.cm
	qp := rep.QP
	if qp == 0 { // as XRC has it
		qp = rep.EECN
	}
	forth := p.pkt.Reversed(qp)
	ids := [2]uint32{min(rep.Local, rep.Remote), max(rep.Local, rep.Remote)}
	req := p.pkt.Reversed(p.pkt.QP & maxQP)
	o := t.opens.find(&req, rep.Remote)
	again := false
	if s := t.find(&forth); s != nil {
		again = s.pairing.ids == ids || s.pairing.next.ids == ids // a retransmission
	}
	if o == nil || o.doubt || again {
		if o != nil && again {
			o.set = false
		}
		return
	}
	o.set = false
	back := forth.Reversed(o.exchange.QP)
	a := t.stream(&forth)
	b := t.beside(a, &back)
	if a == b { // a host and its only queue pair
		return
	}
	a.pairing.next = connection{b.ref(), rep.PSN, ids, o.exchange.MTU}
	b.pairing.next = connection{a.ref(), o.exchange.PSN, ids, o.exchange.MTU}
	if !a.flow.sequence.seen && !b.flow.sequence.seen {
		t.connected(a)
	}
}

// A connection is what a REQ and its REP said of a stream.
type connection struct {
	with ref    // the stream to the other queue pair
	psn  uint32 // the first that comes
	ids  [2]uint32
	mtu  uint16 // 0: not said
}

// announced records a request with PSN p in a stream for which CM announced a
// connection. A request that belongs to it, and not to the life before, begins a
// new life; one that goes on with the life before shows that the exchange was
// forged, and harms nobody.
func (t *Table) announced(s *stream, p uint32) {
	c, q := &s.pairing.next, &s.flow.sequence
	goesOn := q.seen && p == q.next
	switch d := bth.ComparePSN(p, c.psn); {
	case d == 0 || d > 0 && d <= lifeDistance && !goesOn:
		t.connected(s)
	case goesOn:
		if with := t.get(c.with); with != nil && with.pairing.next.ids == c.ids {
			with.pairing.next = connection{}
		}
		*c = connection{}
	}
}

// connected records that the connection is used that CM announced for s: a new
// life begins in both directions, unless CM has announced another one for the
// other direction since.
func (t *Table) connected(s *stream) {
	c := s.pairing.next
	with := t.get(c.with)
	if with == nil {
		s.pairing.next = connection{}
		return
	}
	same := t.known(s) == with
	t.renew(s)
	if with.pairing.next.ids == c.ids {
		t.renew(with)
	}
	if same { // connected anew
		t.join(s, with, qpmap.CM)
	}
	if c.mtu != 0 {
		s.flow.mtu, with.flow.mtu = c.mtu, c.mtu
	}
}

// renew begins the life that CM announced.
func (t *Table) renew(s *stream) {
	t.settle(s)
	t.part(s)
	t.dropEarly(s)
	p, f := &s.pairing, &s.flow
	p.ids = p.next.ids
	f.mtu = 0
	f.opening.set = false
	var h *history
	if f.history != 0 {
		h = t.histories.at(f.history - 1)
	}
	f.sequence.begin(p.next.psn, h)
	p.next = connection{}
}

// ended records a DREQ, which ends only the connection whose communication ids
// it has. Answers on their way still belong to it.
func (t *Table) ended(p *Packet) {
	k := p.pkt
	k.QP = k.QP&^maxQP | p.cm.QP
	s := t.find(&k)
	if s == nil {
		return
	}
	if s.pairing.ids != [2]uint32{min(p.cm.Local, p.cm.Remote), max(p.cm.Local, p.cm.Remote)} {
		return
	}
	if with := t.get(s.pairing.with); with != nil {
		s.pairing.ended, with.pairing.ended = true, true
	}
}
