package flows

import "github.com/rocecn/rocecn/bth"

func (t *Table) observeRequest(p *Packet, frame uint64, at int64) {
	s := t.streamOf(&p.pkt.Flow)
	f := t.addFlow(s)
	if f.Packets == 0 {
		if !f.hasData() {
			t.beginData(s)
		}
		if f.first == 0 { // otherwise it is the time of a lost request or response
			f.first, f.last = at, at
		}
	}
	previous := f.last
	f.countRequest(p, at)
	if p.outer.set {
		t.countOuter(f, p)
	}
	if r := t.responses.lookUp(f.responses); r != nil {
		r.peak.addOctets(at-r.start, p.ipOctets)
	}
	if series := t.seriesOf(f); series != nil {
		series.countRequest(p, at)
		t.totalAt(at).countRequest(p)
	}
	if e := t.evidenceOf(f); e != nil {
		t.recordData(s, e, p, frame, at)
	}
	r := &roles[p.pkt.Opcode]
	if hasSequence(p.pkt.Opcode.Transport(), p.pkt.Flow.QP) {
		t.recordSequenced(s, p, frame, at, previous)
		return
	}
	f.countMessage(r)
	if p.pkt.Opcode.Transport() == bth.TransportUD && !p.noHeaders {
		t.recordSource(s, p.pkt.SrcQP)
	}
	if p.pkt.CM.Attribute != 0 {
		t.learnPacket(p, at)
		t.recordCM(p)
	}
}

// recordSequenced records a request of a transport with consecutive PSNs. The request before it was
// sent at previous.
func (t *Table) recordSequenced(s *stream, p *Packet, frame uint64, at, previous int64) {
	f, q, r := s.flow, &s.flow.sequence, &roles[p.pkt.Opcode]
	t.learnMTU(s, p.pkt.Opcode.PathMTU(p.pkt.Payload))
	if s.pairing.announced.stream.id != 0 {
		t.checkAnnounced(s, p.pkt.PSN)
	}
	if r.asks {
		t.recordAsker(s, frame, at)
	}
	if p.pkt.PSN != q.next || r.asks || s.pairing.srcQPBy == 0 || !s.pairing.skipLearning(at) {
		t.learnPacket(p, at)
		if pair, _ := t.pairs.Sender(&p.pkt.Flow); pair != nil {
			t.sentBy(s, pair)
		}
	}
	var h *history
	if f.history != 0 || f.Packets > 1 || q.begun {
		h = t.historyOf(f)
	}
	connections, slack, read, expected := q.counts.Connections, q.slack, q.read, bth.AddPSN(q.next, q.slack)
	n, more := countPSNs(p, r, s.mtu)
	covered := q.begun && q.isCovered(p.pkt.PSN)
	verdict := q.judgeRequest(p.pkt.PSN, n, more, r, h)
	if q.counts.Connections != connections && s.pairing.ended {
		t.settleAnswers(s)
		t.unpairStream(s)
	}
	if slack > 0 && verdict == inOrder {
		t.resolveRead(h, read, p.pkt.PSN)
	}
	original, known := false, false // if it fills a gap: it was reordered, not retransmitted
	if h != nil && p.pkt.Flow.QP&overIPv4 != 0 {
		if verdict == retransmitted && h.idents.isCopy(p.pkt.PSN, p.ident) {
			q.counts.Copies++
			return
		}
		if verdict == late {
			original, known = h.idents.isOriginal(p.pkt.PSN, p.ident)
		}
		h.idents.add(p.pkt.PSN, p.ident)
	}
	gap := uint32(bth.ComparePSN(p.pkt.PSN, expected))
	if verdict == beyondGap {
		q.gapFrame = frame
	}
	if verdict <= beyondGap && h != nil && h.retries != 0 {
		t.retries.lookUp(h.retries).last.set = false // the sender goes on
	}
	first, unreliable := int64(0), p.pkt.Opcode.Transport() == bth.TransportUC
	if !unreliable {
		t.capture.sampling.addRequest(verdict, f, q.counts.Connections != connections, n, gap)
	}
	if !unreliable && (p.pkt.AckReq || r.asks || verdict.isRetransmission()) {
		t.capture.asked = true
		first = t.rememberRequest(f, h, firstRequest{
			askRequest: askRequest{from: p.pkt.PSN, to: bth.AddPSN(p.pkt.PSN, n+more), octets: p.readLength(),
				atomic: r.message == MessageAtomic, order: t.stats.Packets},
			at: at, read: r.message == MessageRead,
			ackReq: p.pkt.AckReq && !q.isCovered(p.pkt.PSN), // if the answer came first, the two packets were reordered
		}, verdict)
	}
	if verdict != retransmitted {
		f.countMessage(r)
	}
	if f.trimmings != 0 {
		t.retransmitTrimmed(f, q.counts.Connections, p.pkt.PSN, n)
	}
	cause, asked := CauseTimeout, false
	switch {
	case verdict == late && !unreliable:
		asked = h.goBack(q, p.pkt.PSN, bth.AddPSN(p.pkt.PSN, n), t.stats.Packets, true) != CauseTimeout
	case !verdict.isRetransmission():
	case unreliable: // UC does not retransmit
		return
	default:
		cause = h.goBack(q, p.pkt.PSN, bth.AddPSN(p.pkt.PSN, n), t.stats.Packets, false)
		if r.message == MessageRead && t.isReadRest(h, p.pkt.PSN) {
			cause = CauseReadRest
		}
		q.counts.Retransmitted++
		q.causes.countCause(cause)
		if verdict == retransmitted {
			t.recordRetry(f, h, &retry{p: p, cause: cause, covered: covered, first: first, previous: previous, at: at,
				frame: frame})
		}
	}
	if series := t.seriesOf(f); series != nil {
		series.recordSequenced(p, frame, at, verdict, gap, q.counts.Connections != connections, cause)
		t.totalAt(at).countVerdict(verdict, gap)
	}
	if e := t.evidenceOf(f); e != nil {
		e.recordSequenced(frame, at, verdict, cause, h.isFirstInRun(), covered,
			known && !original || asked && !known)
		if verdict <= beyondGap {
			e.recordSize(p.pkt.PSN, p.ipOctets)
		}
	}
	if f.FirstTrouble == 0 && (verdict.isRetransmission() || verdict == beyondGap) {
		f.FirstTrouble = frame
	}
}

// historyOf returns the history of a flow, adding it if needed.
func (t *Table) historyOf(f *flow) *history {
	if f.history != 0 && !f.opening.set { // short enough to be inlined
		return t.histories.lookUp(f.history)
	}
	return t.addHistory(f)
}

// addHistory adds the history of a flow if needed, and moves its first request there.
func (t *Table) addHistory(f *flow) *history {
	h := t.histories.allocate(&f.history)
	if f.opening.set {
		t.addToHistory(h, &f.opening)
		f.opening.set = false
	}
	return h
}

// learnMTU records the path MTU of a connection, seen in the stream s; 0 is ignored.
func (t *Table) learnMTU(s *stream, mtu uint16) {
	if mtu == 0 {
		return
	}
	t.setMTU(s, mtu)
	if other := t.partnerOf(s); other != nil {
		t.setMTU(other, mtu)
	}
}

// setMTU sets the path MTU of a flow, unless it is known.
func (t *Table) setMTU(s *stream, mtu uint16) {
	f := s.flow
	if s.mtu != 0 || mtu == 0 {
		return
	}
	s.mtu = mtu
	if f.sequence.slack == 0 {
		return
	}
	h := t.historyOf(f)
	if a := t.findRead(h, f.sequence.read); a != nil && a.octets != unknownLength {
		a.to = bth.AddPSN(a.from, bth.ReadPSNs(a.octets, mtu))
		f.sequence.resolveSlack(a.to)
	}
}
