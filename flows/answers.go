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

// counts are all that is counted.
func (a *Answers) counts() [12]*uint64 {
	n := &a.naks
	return [...]*uint64{&a.ACKs, &n[0], &n[1], &n[2], &n[3], &n[4], &a.RNRNAKs, &a.CNPs, &a.FastCNPs, &a.PPFC, &a.FCN,
		&a.Proxy}
}

func (a *Answers) add(b *Answers) {
	more := b.counts()
	for i, n := range a.counts() {
		*n += *more[i]
	}
	if b.any {
		a.at(b.last)
	}
}

// count counts a packet that is about a flow.
func (a *Answers) count(p *Packet, at int64) {
	a.at(at)
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
	case answer:
		if roles[p.pkt.Opcode].acknowledge && !p.noHeaders {
			a.acknowledge(p.pkt.Syndrome)
		}
	}
}

// acknowledge counts what an Acknowledge says.
func (a *Answers) acknowledge(s bth.Syndrome) {
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

func (a *Answers) at(at int64) {
	if !a.any || at > a.last {
		a.any, a.last = true, at
	}
}

// Total returns how many packets were counted.
func (a *Answers) Total() (total uint64) {
	for _, n := range a.counts() {
		total += *n
	}
	return total
}

// A reply is an answer to requests, or a CNP, as far as the flow that it is
// about must know it.
type reply struct {
	psn      uint32
	opcode   bth.Opcode
	syndrome bth.Syndrome
	unread   bool // the capture cut the syndrome
	mtu      uint16
	at       int64
	frame    uint64
	class    uint8 // traffic class
	pcp      uint8 // as Packet has it
}

// kind returns the kind of the syndrome: BTH opcodes other than Acknowledge count as an
// ACK, a syndrome that the capture cut as reserved.
func (r *reply) kind() bth.SyndromeType {
	switch {
	case !roles[r.opcode].acknowledge:
		return bth.SyndromeACK // responses carry one
	case r.unread:
		return bth.SyndromeReserved
	}
	return r.syndrome.Type()
}

// answer records what comes back: responses, acknowledgements and CNPs of the
// receiver.
func (t *Table) answer(p *Packet, frame uint64, at int64) {
	s := t.stream(&p.pkt.Flow)
	r := reply{psn: p.pkt.PSN, opcode: p.pkt.Opcode, syndrome: p.pkt.Syndrome, unread: p.noHeaders, at: at,
		mtu: p.pkt.Opcode.PathMTU(p.pkt.Payload), frame: frame, class: p.trafficClass, pcp: p.pcp}
	t.totalled(p, at)
	t.learnMTU(s, r.mtu)
	with := t.known(s)
	doubted := p.kind == answer && with != nil && with.pairing.srcQPBy != 0 && !with.expects(r.psn)
	a := &s.answers
	if doubted {
		a = &s.doubted
	} else if p.kind == answer && s.doubted.any {
		a.add(&s.doubted)
		s.doubted = Answers{}
	}
	a.count(p, at)
	if p.kind == answer && (with == nil || doubted || with.pairing.srcQPBy == 0 || !s.pairing.skips(at)) {
		t.learn(p, at)
		if with = t.known(s); with != nil && with.pairing.srcQPBy == 0 && with.flow.Packets > 0 {
			if pair, _ := t.pairs.Sender(t.key(with)); pair != nil {
				t.sentBy(with, pair) // an answer may be what tells
			}
		}
	}
	if about := t.about(s); about != nil && (!doubted || about != with) {
		t.reply(about, &r)
	} else {
		t.earlies.of(&s.early).keep(&r)
		if p.kind == cnpKind && t.config.Evidence && s.flow.Packets == 0 { // perhaps of a proxy, in its own name
			t.evidences.of(&s.flow.evidence).signs[SignCNP].add(frame, at)
		}
		if p.kind == answer && r.kind() != bth.SyndromeACK {
			t.refuseAll(s, &r)
		}
	}
}

// refuseAll takes a refusal of which it is not known which flow it is about. It
// explains the repeats of all that it may be.
func (t *Table) refuseAll(s *stream, r *reply) {
	for qp := range t.pairs.Asked() {
		k := t.key(s).Reversed(qp)
		if f := t.find(&k); f != nil && t.known(f) == nil {
			t.refuse(f, r)
		}
	}
}

// reply records an answer that is about a flow.
func (t *Table) reply(s *stream, r *reply) {
	f := &s.flow
	o := &roles[r.opcode]
	if o.of == cnpKind {
		t.notified(f, false, r.frame, r.at)
		if e := t.evidence(f); e != nil {
			from := t.key(s).Reversed(0)
			e.notice(NoticeCNP, &from, r.class, r.pcp, r.frame, r.at)
		}
		return
	}
	if f.Packets == 0 && !f.sequence.begun {
		return
	}
	h := t.history(f)
	if e := t.evidence(f); e != nil {
		e.answer(r)
	}
	t.setMTU(s, r.mtu)
	covered, kind := r.psn, r.kind()
	if kind != bth.SyndromeACK {
		covered = bth.AddPSN(r.psn, bth.MaxPSN) // what is before it
	}
	f.sequence.covers(covered)
	h.covers(covered)
	if h.marks.head != h.marks.tail {
		took := h.marks.answered(covered, o.firstResponse, kind != bth.SyndromeACK, r.at, t.histograms.of(&f.rtt))
		if series := t.series(f); series != nil {
			series.timed(took, r.at)
			t.total(r.at).timed(took)
		}
	}
	switch {
	case kind != bth.SyndromeACK:
		t.refuse(s, r)
		t.refused(f, r)
	case o.lastResponse:
		if end := bth.AddPSN(r.psn, 1); f.sequence.slack > 0 && bth.ComparePSN(r.psn, f.sequence.read) >= 0 {
			f.sequence.resolve(end)
			t.resolve(h, f.sequence.read, end)
		}
		if t.complete(h, r.psn, false) {
			f.messages[Read].Complete++
		}
	case o.message == Atomic:
		if t.complete(h, r.psn, true) {
			f.messages[Atomic].Complete++
		}
	}
}

// refuse records that a reply refuses what a flow sent from its PSN on, which
// explains repeats, whether or not the reply is known to be about the flow.
func (t *Table) refuse(s *stream, r *reply) {
	kind := r.kind()
	code, _ := r.syndrome.Code()
	if kind == bth.SyndromeRNRNAK || kind == bth.SyndromeNAK && code == bth.NAKPSNSequence {
		f := &s.flow
		sent := bth.AddPSN(f.sequence.next, f.sequence.slack)
		if e := t.evidence(f); e != nil {
			e.refused(kind == bth.SyndromeRNRNAK, r)
		}
		t.history(f).refuse(r.psn, sent, kind == bth.SyndromeRNRNAK, t.stats.Packets)
	}
}

// An early holds answers until it is known which flow they are about.
type early struct {
	kept [maxEarly]reply // a ring, the oldest at n-maxEarly
	n    uint32          // how many were kept so far

	lost    covered // by answers that the ring had no room for
	covered covered // by middle responses, which are not kept

	heard bool // a notification came about this stream's flow, which has no request yet
	from  key  // of the notification's packet, if heard
}

// covered is the highest PSN that some answers cover, if there are any.
type covered struct {
	any bool
	psn uint32
}

func (c *covered) add(psn uint32) {
	if !c.any || bth.ComparePSN(psn, c.psn) > 0 {
		c.any, c.psn = true, psn
	}
}

// maxEarly is how many answers are kept of each queue pair. What older ones
// would have timed is not timed, what they covered is covered.
const maxEarly = 16

func (e *early) keep(r *reply) {
	o := &roles[r.opcode]
	if o.message == Read && !o.firstResponse && !o.lastResponse {
		e.covered.add(r.psn)
		return
	}
	old := &e.kept[e.n%maxEarly]
	if e.n >= maxEarly && roles[old.opcode].of == answer {
		e.lost.add(old.psn)
	}
	*old = *r
	e.n++
}

// replay records the answers in s that came before it was known that they are
// about the flow of another stream.
func (t *Table) replay(s, about *stream) {
	if s.early == 0 {
		return
	}
	e := *t.earlies.at(s.early)
	t.dropEarly(s)
	f := &about.flow
	if e.lost.any && f.history != 0 {
		h := t.history(f)
		f.sequence.covers(e.lost.psn)
		h.covers(e.lost.psn)
		h.marks.answered(e.lost.psn, false, true, 0, nil)
	}
	for i := e.n - min(e.n, maxEarly); i != e.n; i++ {
		r := e.kept[i%maxEarly]
		if r.kind() != bth.SyndromeACK { // what it explains was recorded when it came
			t.refused(f, &r)
			r.unread = true
		}
		t.reply(about, &r)
	}
	if e.covered.any && f.history != 0 {
		f.sequence.covers(e.covered.psn)
		t.history(f).covers(e.covered.psn)
	}
}

// dropEarly forgets the answers that are kept of a stream.
func (t *Table) dropEarly(s *stream) {
	if e := t.earlies.at(s.early); e != nil && e.heard {
		*e = early{heard: true, from: e.from}
		return
	}
	t.earlies.give(&s.early)
}
