package flows

import (
	"iter"
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
)

// Answers counts the packets that a receiver or a node sent about a flow. NAK and NAKs return the
// NAKs by code.
type Answers struct {
	ACKs     uint64 // Acknowledge packets with an ACK syndrome
	RNRNAKs  uint64 // RNR NAKs (receiver not ready)
	CNPs     uint64 // CNPs without a Fast CNP option
	FastCNPs uint64 // CNPs with a Fast CNP option, or with an unknown option that a host must not skip
	PPFC     uint64 // PPFC notifications
	FCN      uint64 // FCNs, sent to the ingress PE of the flow
	Proxy    uint64 // messages sent to a proxy of the sender

	// RNRTimers are the timers in the RNR NAKs: bit n for the code n, which [bth.Syndrome.Timer]
	// converts to a time. In Changes, they are those of the whole flow.
	RNRTimers uint32

	// Wrong counts answers with a wrong ICRC or UDP checksum, which their receiver dropped. They count
	// nowhere else. Answers that the capture truncated cannot be verified and count as valid.
	Wrong WrongAnswers

	naks [bth.NAKInvalidRDRequest + 1]uint64 // by bth.NAKCode
	last int64                               // time of the last packet, nanoseconds since 1970
	any  bool
}

// counters returns pointers to all counters.
func (a *Answers) counters() [20]*uint64 {
	n, w := &a.naks, &a.Wrong
	return [...]*uint64{&a.ACKs, &n[0], &n[1], &n[2], &n[3], &n[4], &a.RNRNAKs, &a.CNPs, &a.FastCNPs, &a.PPFC, &a.FCN,
		&a.Proxy, &w.ACKs, &w.NAKs, &w.RNRNAKs, &w.CNPs, &w.FastCNPs, &w.PPFC, &w.FCN, &w.Proxy}
}

// WrongAnswers counts answers with a wrong ICRC, or for FCN and Proxy a wrong UDP checksum, by kind as in
// [Answers]. NAKs have all codes.
type WrongAnswers struct {
	ACKs     uint64 `json:"acks"`
	NAKs     uint64 `json:"naks"`
	RNRNAKs  uint64 `json:"rnr_naks"`
	CNPs     uint64 `json:"cnps"`
	FastCNPs uint64 `json:"fast"`
	PPFC     uint64 `json:"ppfc"`
	FCN      uint64 `json:"fcn"`
	Proxy    uint64 `json:"proxy"`
}

// Total returns the number of packets counted.
func (w *WrongAnswers) Total() uint64 {
	return w.ACKs + w.NAKs + w.RNRNAKs + w.CNPs + w.FastCNPs + w.PPFC + w.FCN + w.Proxy
}

// countPacket counts an answer with a wrong ICRC or UDP checksum.
func (w *WrongAnswers) countPacket(p *Packet) {
	switch p.kind {
	case cnpKind:
		w.CNPs++
	case fastKind:
		w.FastCNPs++
	case ppfcKind:
		w.PPFC++
	case fcnKind:
		w.FCN++
	case proxyKind:
		w.Proxy++
	case answerKind:
		if !roles[p.pkt.Opcode].acknowledge {
			return
		}
		switch p.pkt.Syndrome.Type() {
		case bth.SyndromeACK:
			w.ACKs++
		case bth.SyndromeRNRNAK:
			w.RNRNAKs++
		case bth.SyndromeNAK:
			w.NAKs++
		}
	}
}

// addCounts adds the counts of b, which may be nil.
func (a *Answers) addCounts(b *Answers) {
	if b == nil {
		return
	}
	more := b.counters()
	for i, n := range a.counters() {
		*n += *more[i]
	}
	a.RNRTimers |= b.RNRTimers
	if b.any {
		a.setLast(b.last)
	}
}

func (a *Answers) countPacket(p *Packet, at int64) {
	if p.icrcWrong {
		a.Wrong.countPacket(p)
		return
	}
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

// countAcknowledge counts an Acknowledge by its syndrome.
func (a *Answers) countAcknowledge(s bth.Syndrome) {
	switch s.Type() {
	case bth.SyndromeACK:
		a.ACKs++
	case bth.SyndromeRNRNAK:
		a.RNRNAKs++
		a.RNRTimers |= 1 << (s & 0x1f)
	case bth.SyndromeNAK:
		if code, _ := s.Code(); int(code) < len(a.naks) {
			a.naks[code]++
		}
	}
}

// Timers returns the times in the RNR NAKs for which a sender has to wait, in ascending order.
func (a *Answers) Timers() (all []time.Duration) {
	for code := range 32 {
		if a.RNRTimers>>code&1 != 0 {
			all = append(all, (bth.Syndrome(bth.SyndromeRNRNAK)<<5 | bth.Syndrome(code)).Timer())
		}
	}
	slices.Sort(all)
	return all
}

// NAK returns a pointer to the number of NAKs with this code, so that a program can also build a
// snapshot. For an undefined code it points to a counter that is not part of a.
func (a *Answers) NAK(code bth.NAKCode) *uint64 {
	if int(code) >= len(a.naks) {
		return new(uint64)
	}
	return &a.naks[code]
}

// NAKs yields every defined NAK code with the number of NAKs that had it, 0 included.
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

// Total returns the number of packets counted, those in Wrong included.
func (a *Answers) Total() (total uint64) {
	for _, n := range a.counters() {
		total += *n
	}
	return total
}

// A reply is an answer or a CNP, reduced to the fields that the flow needs.
type reply struct {
	at         int64
	frame      uint64
	psn        uint32
	mtu        uint16
	opcode     bth.Opcode
	syndrome   bth.Syndrome
	noSyndrome bool  // the syndrome was truncated
	class      uint8 // traffic class of the IP header
	pcp        uint8 // bit set, see Packet.pcp
}

// syndromeType returns the type of the syndrome. Opcodes other than Acknowledge count as an ACK,
// and a truncated syndrome as reserved.
func (r *reply) syndromeType() bth.SyndromeType {
	switch {
	case !roles[r.opcode].acknowledge:
		return bth.SyndromeACK // a response acknowledges its request
	case r.noSyndrome:
		return bth.SyndromeReserved
	}
	return r.syndrome.Type()
}

// isRefusal reports whether the answer is a NAK with another code than PSN sequence error.
func (r *reply) isRefusal() bool {
	code, ok := r.syndrome.Code()
	return ok && !r.noSyndrome && r.syndromeType() == bth.SyndromeNAK && code != bth.NAKPSNSequence
}

// The signs of answers that are kept for each stream: those with a wrong ICRC, and NAKs without a
// known flow.
const (
	wrongAnswer = iota
	refusedAnswer
	rnrAnswer
	answerSignKinds
)

func (t *Table) recordAnswerSign(s *stream, kind int, frame uint64, at int64) {
	if t.config.Evidence {
		t.answerSigns.allocate(&s.answerSigns)[kind].addFrame(frame, at)
	}
}

// observeAnswer records a response, an acknowledgement or a CNP.
func (t *Table) observeAnswer(p *Packet, frame uint64, at int64) {
	s := t.streamOf(&p.pkt.Flow)
	if roles[p.pkt.Opcode].isResponse() {
		t.recordResponse(s, p, frame, at)
	}
	if p.icrcWrong { // its receiver drops it
		a := s.addAnswers()
		before := a.Wrong.Total()
		if a.countPacket(p, at); a.Wrong.Total() > before {
			t.recordAnswerSign(s, wrongAnswer, frame, at)
		}
		return
	}
	r := reply{psn: p.pkt.PSN, opcode: p.pkt.Opcode, syndrome: p.pkt.Syndrome, noSyndrome: p.noHeaders, at: at,
		mtu: p.pkt.Opcode.PathMTU(p.pkt.Payload), frame: frame, class: p.trafficClass, pcp: p.pcp}
	t.countTotal(p, at)
	t.learnMTU(s, r.mtu)
	partner := t.partnerOf(s)
	doubted := p.kind == answerKind && partner != nil && partner.pairing.srcQPBy != 0 && !partner.expectsAnswer(r.psn)
	if doubted {
		s.addOthers().doubted.countPacket(p, at)
	} else {
		a := s.addAnswers()
		if p.kind == answerKind && s.others != nil && s.others.doubted.any {
			doubted := s.takeDoubted()
			a.addCounts(&doubted)
		}
		a.countPacket(p, at)
	}
	if p.kind == answerKind &&
		(partner == nil || doubted || partner.pairing.srcQPBy == 0 || !s.pairing.skipLearning(at)) {
		t.learnPacket(p, at)
		if partner = t.partnerOf(s); partner != nil && partner.pairing.srcQPBy == 0 && partner.flow.Packets > 0 {
			if pair, _ := t.pairs.Sender(t.keyOfStream(partner)); pair != nil {
				t.sentBy(partner, pair) // this answer may have completed the evidence
			}
		}
	}
	if about := t.streamAbout(s); about != nil && (!doubted || about != partner) {
		t.recordReply(about, &r)
	} else {
		t.earlies.allocate(&s.early).keepReply(&r)
		if p.kind == cnpKind && t.config.Evidence && !s.flow.hasData() { // a proxy may send CNPs from its own address
			t.evidences.allocate(&t.addFlow(s).evidence).signs[SignCNP].addFrame(frame, at)
		}
		if p.kind == answerKind && r.syndromeType() != bth.SyndromeACK {
			t.rememberNAKForAll(s, &r)
			switch {
			case r.isRefusal():
				t.recordAnswerSign(s, refusedAnswer, frame, at)
			case r.syndromeType() == bth.SyndromeRNRNAK:
				t.recordAnswerSign(s, rnrAnswer, frame, at)
			}
		}
	}
}

// rememberNAKForAll records a NAK that could be about several flows. It counts as a possible cause
// of the retransmissions of each of them.
func (t *Table) rememberNAKForAll(s *stream, r *reply) {
	for qp := range t.pairs.Asked() {
		k := t.keyOfStream(s).Reversed(qp)
		if f := t.findStream(&k); f != nil && t.partnerOf(f) == nil {
			t.rememberNAK(f, r)
		}
	}
}

// recordReply records an answer that is about the flow of s.
func (t *Table) recordReply(s *stream, r *reply) {
	f := s.flow
	o := &roles[r.opcode]
	if o.kind == cnpKind {
		f = t.addFlow(s)
		t.recordCNP(f, false, r.frame, r.at)
		if e := t.evidenceOf(f); e != nil {
			from := t.keyOfStream(s).Reversed(0)
			e.recordNotice(NoticeCNP, &from, r.class, r.pcp, r.frame, r.at)
			t.episodes.allocate(&e.episodes).addSign(r.at)
		}
		return
	}
	if f.Packets == 0 && !f.sequence.begun {
		return
	}
	h := t.historyOf(f)
	t.capture.answered = true
	if e := t.evidenceOf(f); e != nil {
		e.recordAnswer(r)
	}
	t.setMTU(s, r.mtu)
	covered, kind := r.psn, r.syndromeType()
	if kind != bth.SyndromeACK {
		covered = bth.AddPSN(r.psn, bth.MaxPSN) // a NAK covers the PSNs before its own
	}
	if e := t.evidenceOf(f); e != nil {
		e.coverSizes(covered)
	}
	advances := !f.sequence.isCovered(covered)
	if f.sequence.recordCovered(covered) && (o.message != MessageRead || o.firstResponse) {
		f.sequence.recordAnswered(r.frame, h) // a READ may take long
	}
	if h.retries != 0 {
		t.answerRetried(f, h, r, covered, advances)
	}
	h.coverNAKs(covered)
	if h.marks.head != h.marks.tail {
		took := h.marks.timeAnswer(covered, o.firstResponse, kind != bth.SyndromeACK, r.at,
			t.histograms.allocate(&f.rtt))
		if series := t.seriesOf(f); series != nil {
			series.recordRTT(took, r.at)
			t.totalAt(r.at).raiseRTT(took)
		}
	}
	switch {
	case kind != bth.SyndromeACK:
		t.rememberNAK(s, r)
		t.recordNAK(f, r)
		t.capture.sampling.addNAK(r)
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

// rememberNAK records a NAK that explains retransmissions of s from its PSN on, even if the NAK
// may belong to another flow.
func (t *Table) rememberNAK(s *stream, r *reply) {
	kind := r.syndromeType()
	code, _ := r.syndrome.Code()
	if kind == bth.SyndromeRNRNAK || kind == bth.SyndromeNAK && code == bth.NAKPSNSequence {
		f := t.addFlow(s)
		sent := bth.AddPSN(f.sequence.next, f.sequence.slack)
		if e := t.evidenceOf(f); e != nil {
			e.recordNAK(kind == bth.SyndromeRNRNAK, r)
		}
		t.historyOf(f).addNAK(r.psn, sent, kind == bth.SyndromeRNRNAK, t.stats.Packets)
		if f.trimmings != 0 && kind == bth.SyndromeNAK {
			t.nakTrimmed(f, r.psn, r.frame, r.at)
		}
	}
}

// earlyReplies holds answers until their flow is known.
type earlyReplies struct {
	kept []reply // ring buffer that grows to maxEarly as needed; the oldest reply is at n-maxEarly
	n    uint32  // replies stored so far

	lost    coverage // by replies overwritten in the ring
	covered coverage // by middle responses, which are not stored

	notified bool // a notification named this stream's flow before its first request
	from     key  // key of the notification's packet, if notified is set
}

// coverage is the highest PSN covered by some answers, if there are any.
type coverage struct {
	any bool
	psn uint32
}

func (c *coverage) raise(psn uint32) {
	if !c.any || bth.ComparePSN(psn, c.psn) > 0 {
		c.any, c.psn = true, psn
	}
}

// maxEarly is the number of answers kept for each queue pair. Older answers still cover PSNs, but
// give no round trip times.
const maxEarly = 16

func (e *earlyReplies) keepReply(r *reply) {
	o := &roles[r.opcode]
	if o.message == MessageRead && !o.firstResponse && !o.lastResponse {
		e.covered.raise(r.psn)
		return
	}
	if e.n < maxEarly && int(e.n) == len(e.kept) {
		e.kept = append(e.kept, reply{})
	}
	old := &e.kept[e.n%maxEarly]
	if e.n >= maxEarly && roles[old.opcode].kind == answerKind {
		e.lost.raise(old.psn)
	}
	*old = *r
	e.n++
}

// replayEarly records the stored answers of s for the flow of another stream, once the two are
// known to be partners.
func (t *Table) replayEarly(s, about *stream) {
	if s.early == 0 {
		return
	}
	e := *t.earlies.lookUp(s.early)
	t.dropEarly(s)
	f := about.flow
	if e.lost.any && f.history != 0 {
		h := t.historyOf(f)
		f.sequence.recordCovered(e.lost.psn)
		h.coverNAKs(e.lost.psn)
		h.marks.timeAnswer(e.lost.psn, false, true, 0, nil)
	}
	for i := e.n - min(e.n, maxEarly); i != e.n; i++ {
		r := e.kept[i%maxEarly]
		if r.syndromeType() != bth.SyndromeACK { // rememberNAK ran when the NAK arrived
			t.recordNAK(f, &r)
			r.noSyndrome = true
		}
		t.recordReply(about, &r)
	}
	if e.covered.any && f.history != 0 {
		f.sequence.recordCovered(e.covered.psn)
		t.historyOf(f).coverNAKs(e.covered.psn)
	}
}

// dropEarly discards the stored answers of a stream.
func (t *Table) dropEarly(s *stream) {
	if e := t.earlies.lookUp(s.early); e != nil && e.notified {
		*e = earlyReplies{notified: true, from: e.from}
		return
	}
	t.earlies.release(&s.early)
}
