package flows

import "github.com/rocecn/rocecn/bth"

// request records a request.
func (t *Table) request(p *Packet, frame uint64, at int64) {
	s := t.stream(&p.pkt.Flow)
	f := &s.flow
	if f.Packets == 0 {
		f.first, f.last = at, at
		t.evidences.give(&f.evidence) // of CNPs about another flow
		if e := t.earlies.at(s.early); e != nil {
			e.heard = false // what came about the flow before counts for it now
		}
		t.names.add(&p.pkt.Flow)
	}
	f.count(p, at)
	if series := t.series(f); series != nil {
		series.packet(p, at)
		t.total(at).request(p)
	}
	if e := t.evidence(f); e != nil {
		e.request(p, frame, at)
		t.recovered(e)
	}
	r := &roles[p.pkt.Opcode]
	if sequenced(p.pkt.Opcode.Transport(), p.pkt.Flow.QP) {
		t.sequenced(s, p, frame, at)
		return
	}
	f.countMessage(r)
	if p.pkt.Opcode.Transport() == bth.TransportUD && !p.noHeaders {
		t.source(s, p.pkt.SrcQP)
	}
	if p.pkt.CM.Attribute != 0 {
		t.learn(p, at)
		t.connect(p)
	}
}

// sequenced records a request of a transport whose PSNs follow one another.
func (t *Table) sequenced(s *stream, p *Packet, frame uint64, at int64) {
	f, q, r := &s.flow, &s.flow.sequence, &roles[p.pkt.Opcode]
	t.learnMTU(s, p.pkt.Opcode.PathMTU(p.pkt.Payload))
	if s.pairing.next.with.id != 0 {
		t.announced(s, p.pkt.PSN)
	}
	if p.pkt.PSN != q.next || r.asks || s.pairing.srcQPBy == 0 || !s.pairing.skips(at) {
		t.learn(p, at)
		if pair, _ := t.pairs.Sender(&p.pkt.Flow); pair != nil {
			t.sentBy(s, pair)
		}
	}
	var h *history
	if f.history != 0 || f.Packets > 1 || q.begun {
		h = t.history(f)
	}
	lives, slack, read, expected := q.counts.Lives, q.slack, q.read, bth.AddPSN(q.next, q.slack)
	n, more := f.takes(p, r)
	covered := q.begun && q.covered(p.pkt.PSN)
	verdict := q.request(p.pkt.PSN, n, more, r, h)
	if q.counts.Lives != lives && s.pairing.ended {
		t.settle(s)
		t.part(s)
	}
	if slack > 0 && verdict == inOrder {
		t.resolve(h, read, p.pkt.PSN)
	}
	if h != nil && p.pkt.Flow.QP&overIPv4 != 0 {
		if verdict == repeated && h.idents.twin(p.pkt.PSN, p.ident) {
			q.counts.Copies++
			return
		}
		h.idents.add(p.pkt.PSN, p.ident)
	}
	unreliable := p.pkt.Opcode.Transport() == bth.TransportUC
	if !unreliable && (p.pkt.AckReq || r.asks || verdict.repeats()) {
		t.note(f, h, opening{
			asked: asked{from: p.pkt.PSN, to: bth.AddPSN(p.pkt.PSN, n+more), octets: p.asked(),
				atomic: r.message == Atomic, order: t.stats.Packets},
			at: at, read: r.message == Read,
			ackReq: p.pkt.AckReq && !q.covered(p.pkt.PSN), // or the answer came first: two packets changed places
		}, verdict)
	}
	if verdict != repeated {
		f.countMessage(r)
	}
	cause, asked := Timeout, false
	switch {
	case verdict == fillsHole && !unreliable:
		asked = h.goBack(q, p.pkt.PSN, bth.AddPSN(p.pkt.PSN, n), t.stats.Packets, true) != Timeout
	case !verdict.repeats():
	case unreliable: // UC repeats nothing
		return
	default:
		cause = h.goBack(q, p.pkt.PSN, bth.AddPSN(p.pkt.PSN, n), t.stats.Packets, false)
		if r.message == Read && t.rest(h, p.pkt.PSN) {
			cause = ReadRest
		}
		q.counts.Repeats++
		q.causes.add(cause)
	}
	if series := t.series(f); series != nil {
		gap := uint32(bth.ComparePSN(p.pkt.PSN, expected))
		series.sequenced(p, frame, at, verdict, gap, q.counts.Lives != lives, cause)
		t.total(at).judged(verdict, gap)
	}
	if e := t.evidence(f); e != nil {
		e.sequenced(frame, at, verdict, cause, covered, asked)
	}
	if f.FirstTrouble == 0 && (verdict.repeats() || verdict == beyondGap) {
		f.FirstTrouble = frame
	}
}

// history returns the history of a flow, and begins it if there is none.
func (t *Table) history(f *flow) *history {
	h := t.histories.of(&f.history)
	if f.opening.set {
		t.remember(h, &f.opening)
		f.opening.set = false
	}
	return h
}

// learnMTU records the path MTU of a connection, seen in the stream s; 0 says
// nothing.
func (t *Table) learnMTU(s *stream, mtu uint16) {
	if mtu == 0 {
		return
	}
	t.setMTU(s, mtu)
	if other := t.known(s); other != nil {
		t.setMTU(other, mtu)
	}
}

// setMTU sets the path MTU of a flow, unless it is known already.
func (t *Table) setMTU(s *stream, mtu uint16) {
	f := &s.flow
	if f.MTU != 0 || mtu == 0 {
		return
	}
	f.MTU = mtu
	if f.sequence.slack == 0 {
		return
	}
	h := t.history(f)
	if a := t.asking(h, f.sequence.read); a != nil && a.octets != unknownLength {
		a.to = bth.AddPSN(a.from, bth.ReadPSNs(a.octets, mtu))
		f.sequence.resolve(a.to)
	}
}
