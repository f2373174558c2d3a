package flows

import (
	"iter"

	"github.com/rocecn/rocecn/bth"
)

// Answers counts what comes back to the sender of a flow. NAK and NAKs have the NAKs.
type Answers struct {
	ACKs     uint64 // opcode Acknowledge with an ACK syndrome
	RNRNAKs  uint64 // receiver not ready
	CNPs     uint64 // those without a Fast CNP option
	FastCNPs uint64 // CNPs with one, or with an unknown option that a host must not skip, which may be one (D2)
	PPFC     uint64 // PPFC notifications
	FCN      uint64 // FCNs, which are for the ingress PE of the flow
	Proxy    uint64 // messages to a proxy of the sender

	naks [bth.NAKInvalidRDRequest + 1]uint64 // by bth.NAKCode
	last int64                               // nanoseconds since 1970: when the last came
	any  bool
}

// counters are all that is counted.
func (a *Answers) counters() [12]*uint64 {
	n := &a.naks
	return [...]*uint64{&a.ACKs, &n[0], &n[1], &n[2], &n[3], &n[4], &a.RNRNAKs, &a.CNPs, &a.FastCNPs, &a.PPFC, &a.FCN,
		&a.Proxy}
}

func (a *Answers) addCounts(b *Answers) {
	more := b.counters()
	for i, n := range a.counters() {
		*n += *more[i]
	}
	if b.any {
		a.setLast(b.last)
	}
}

// countPacket counts a packet that is about a flow.
func (a *Answers) countPacket(p *Packet, at int64) {
	a.setLast(at)
	switch p.kind {
	case cnpKind:
		a.CNPs++
	case fastKind:
		a.FastCNPs++
	case ppfcKind:
		a.PPFC++
	case fcnKind:
		a.FCN++
	case proxyKind:
		a.Proxy++
	case answerKind:
		if roles[p.pkt.Opcode].acknowledge && !p.noHeaders {
			a.countAcknowledge(p.pkt.Syndrome)
		}
	}
}

// countAcknowledge counts what an Acknowledge says.
func (a *Answers) countAcknowledge(s bth.Syndrome) {
	switch s.Type() {
	case bth.SyndromeACK:
		a.ACKs++
	case bth.SyndromeRNRNAK:
		a.RNRNAKs++
	case bth.SyndromeNAK:
		if code, _ := s.Code(); int(code) < len(a.naks) {
			a.naks[code]++
		}
	}
}

// NAK returns how many NAKs had a code, by a pointer so that a program can make up a snapshot. For a code without a
// name it points to a count of its own.
func (a *Answers) NAK(code bth.NAKCode) *uint64 {
	if int(code) >= len(a.naks) {
		return new(uint64)
	}
	return &a.naks[code]
}

// NAKs yields how many NAKs had each code, those that did not occur included.
func (a *Answers) NAKs() iter.Seq2[bth.NAKCode, uint64] {
	return func(yield func(bth.NAKCode, uint64) bool) {
		for code, n := range a.naks {
			if !yield(bth.NAKCode(code), n) {
				return
			}
		}
	}
}

func (a *Answers) setLast(at int64) {
	if !a.any || at > a.last {
		a.any, a.last = true, at
	}
}

// Total returns how many packets were counted.
func (a *Answers) Total() (total uint64) {
	for _, n := range a.counters() {
		total += *n
	}
	return total
}

// A reply is an answer to requests, or a CNP, as far as the flow that it is
// about must know it.
type reply struct {
	psn        uint32
	opcode     bth.Opcode
	syndrome   bth.Syndrome
	noSyndrome bool // the capture cut the syndrome
	mtu        uint16
	at         int64
	frame      uint64
	class      uint8 // traffic class
	pcp        uint8 // as Packet has it
}

// syndromeType returns the kind of the syndrome: BTH opcodes other than Acknowledge count as an
// ACK, a syndrome that the capture cut as reserved.
func (r *reply) syndromeType() bth.SyndromeType {
	switch {
	case !roles[r.opcode].acknowledge:
		return bth.SyndromeACK // responses carry one
	case r.noSyndrome:
		return bth.SyndromeReserved
	}
	return r.syndrome.Type()
}

// observeAnswer records what comes back: responses, acknowledgements and CNPs of the
// receiver.
func (t *Table) observeAnswer(p *Packet, frame uint64, at int64) {
	s := t.streamOf(&p.pkt.Flow)
	r := reply{psn: p.pkt.PSN, opcode: p.pkt.Opcode, syndrome: p.pkt.Syndrome, noSyndrome: p.noHeaders, at: at,
		mtu: p.pkt.Opcode.PathMTU(p.pkt.Payload), frame: frame, class: p.trafficClass, pcp: p.pcp}
	t.countTotal(p, at)
	t.learnMTU(s, r.mtu)
	with := t.partnerOf(s)
	doubted := p.kind == answerKind && with != nil && with.pairing.srcQPBy != 0 && !with.expectsAnswer(r.psn)
	a := &s.answers
	if doubted {
		a = &s.doubted
	} else if p.kind == answerKind && s.doubted.any {
		a.addCounts(&s.doubted)
		s.doubted = Answers{}
	}
	a.countPacket(p, at)
	if p.kind == answerKind && (with == nil || doubted || with.pairing.srcQPBy == 0 || !s.pairing.skipLearning(at)) {
		t.learnPacket(p, at)
		if with = t.partnerOf(s); with != nil && with.pairing.srcQPBy == 0 && with.flow.Packets > 0 {
			if pair, _ := t.pairs.Sender(t.keyOfStream(with)); pair != nil {
				t.sentBy(with, pair) // an answer may be what tells
			}
		}
	}
	if about := t.streamAbout(s); about != nil && (!doubted || about != with) {
		t.recordReply(about, &r)
	} else {
		t.earlies.allocate(&s.early).keepReply(&r)
		if p.kind == cnpKind && t.config.Evidence && s.flow.Packets == 0 { // perhaps of a proxy, in its own name
			t.evidences.allocate(&s.flow.evidence).signs[SignCNP].addFrame(frame, at)
		}
		if p.kind == answerKind && r.syndromeType() != bth.SyndromeACK {
			t.refuseAll(s, &r)
		}
	}
}

// refuseAll takes a refusal of which it is not known which flow it is about. It
// explains the repeats of all that it may be.
func (t *Table) refuseAll(s *stream, r *reply) {
	for qp := range t.pairs.Asked() {
		k := t.keyOfStream(s).Reversed(qp)
		if f := t.findStream(&k); f != nil && t.partnerOf(f) == nil {
			t.recordRefusal(f, r)
		}
	}
}

// recordReply records an answer that is about a flow.
func (t *Table) recordReply(s *stream, r *reply) {
	f := &s.flow
	o := &roles[r.opcode]
	if o.kind == cnpKind {
		t.recordCNP(f, false, r.frame, r.at)
		if e := t.evidenceOf(f); e != nil {
			from := t.keyOfStream(s).Reversed(0)
			e.recordNotice(NoticeCNP, &from, r.class, r.pcp, r.frame, r.at)
		}
		return
	}
	if f.Packets == 0 && !f.sequence.begun {
		return
	}
	h := t.historyOf(f)
	if e := t.evidenceOf(f); e != nil {
		e.recordAnswer(r)
	}
	t.setMTU(s, r.mtu)
	covered, kind := r.psn, r.syndromeType()
	if kind != bth.SyndromeACK {
		covered = bth.AddPSN(r.psn, bth.MaxPSN) // what is before it
	}
	f.sequence.recordCovered(covered)
	h.coverRefusals(covered)
	if h.marks.head != h.marks.tail {
		took := h.marks.timeAnswer(covered, o.firstResponse, kind != bth.SyndromeACK, r.at, t.histograms.allocate(&f.rtt))
		if series := t.seriesOf(f); series != nil {
			series.recordRTT(took, r.at)
			t.totalAt(r.at).raiseRTT(took)
		}
	}
	switch {
	case kind != bth.SyndromeACK:
		t.recordRefusal(s, r)
		t.recordNAK(f, r)
	case o.lastResponse:
		if end := bth.AddPSN(r.psn, 1); f.sequence.slack > 0 && bth.ComparePSN(r.psn, f.sequence.read) >= 0 {
			f.sequence.resolveSlack(end)
			t.resolveRead(h, f.sequence.read, end)
		}
		if t.completeMessage(h, r.psn, false) {
			f.messages[MessageRead].Complete++
		}
	case o.message == MessageAtomic:
		if t.completeMessage(h, r.psn, true) {
			f.messages[MessageAtomic].Complete++
		}
	}
}

// recordRefusal records that a reply refuses what a flow sent from its PSN on, which
// explains repeats, whether or not the reply is known to be about the flow.
func (t *Table) recordRefusal(s *stream, r *reply) {
	kind := r.syndromeType()
	code, _ := r.syndrome.Code()
	if kind == bth.SyndromeRNRNAK || kind == bth.SyndromeNAK && code == bth.NAKPSNSequence {
		f := &s.flow
		sent := bth.AddPSN(f.sequence.next, f.sequence.slack)
		if e := t.evidenceOf(f); e != nil {
			e.recordRefusal(kind == bth.SyndromeRNRNAK, r)
		}
		t.historyOf(f).addRefusal(r.psn, sent, kind == bth.SyndromeRNRNAK, t.stats.Packets)
	}
}

// An earlyReplies holds answers until it is known which flow they are about.
type earlyReplies struct {
	kept [maxEarly]reply // a ring, the oldest at n-maxEarly
	n    uint32          // how many were kept so far

	lost    coverage // by answers that the ring had no room for
	covered coverage // by middle responses, which are not kept

	notified bool // a notification came about this stream's flow, which has no request yet
	from     key  // of the notification's packet, if heard
}

// coverage is the highest PSN that some answers cover, if there are any.
type coverage struct {
	any bool
	psn uint32
}

func (c *coverage) raise(psn uint32) {
	if !c.any || bth.ComparePSN(psn, c.psn) > 0 {
		c.any, c.psn = true, psn
	}
}

// maxEarly is how many answers are kept of each queue pair. What older ones
// would have timed is not timed, what they covered is covered.
const maxEarly = 16

func (e *earlyReplies) keepReply(r *reply) {
	o := &roles[r.opcode]
	if o.message == MessageRead && !o.firstResponse && !o.lastResponse {
		e.covered.raise(r.psn)
		return
	}
	old := &e.kept[e.n%maxEarly]
	if e.n >= maxEarly && roles[old.opcode].kind == answerKind {
		e.lost.raise(old.psn)
	}
	*old = *r
	e.n++
}

// replayEarly records the answers in s that came before it was known that they are
// about the flow of another stream.
func (t *Table) replayEarly(s, about *stream) {
	if s.early == 0 {
		return
	}
	e := *t.earlies.lookUp(s.early)
	t.dropEarly(s)
	f := &about.flow
	if e.lost.any && f.history != 0 {
		h := t.historyOf(f)
		f.sequence.recordCovered(e.lost.psn)
		h.coverRefusals(e.lost.psn)
		h.marks.timeAnswer(e.lost.psn, false, true, 0, nil)
	}
	for i := e.n - min(e.n, maxEarly); i != e.n; i++ {
		r := e.kept[i%maxEarly]
		if r.syndromeType() != bth.SyndromeACK { // what it explains was recorded when it came
			t.recordNAK(f, &r)
			r.noSyndrome = true
		}
		t.recordReply(about, &r)
	}
	if e.covered.any && f.history != 0 {
		f.sequence.recordCovered(e.covered.psn)
		t.historyOf(f).coverRefusals(e.covered.psn)
	}
}

// dropEarly forgets the answers that are kept of a stream.
func (t *Table) dropEarly(s *stream) {
	if e := t.earlies.lookUp(s.early); e != nil && e.notified {
		*e = earlyReplies{notified: true, from: e.from}
		return
	}
	t.earlies.release(&s.early)
}
