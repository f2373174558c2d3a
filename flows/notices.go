package flows

import "github.com/rocecn/rocecn/internal/flowtable"

// observeNotice records a message that names its flow: a Fast CNP, a PPFC, an FCN or a proxy
// message.
func (t *Table) observeNotice(p *Packet, frame uint64, at int64) {
	about, named := p.about, p.about.QP&withoutQP == 0
	switch {
	case p.kind == fcnKind:
		about, named = t.labels.lookUpFlow(p)
	case p.kind == ppfcKind && named && about.Dst == p.pkt.Flow.Src:
		// The address is the node's own (D15): only DestQP identifies the flow.
		if k, ok := t.names.lookUpFlow(&about); ok {
			about = k
		}
	}
	if !named && t.ownsShard(&p.pkt.Flow) {
		t.countStray(t.streamOf(&p.pkt.Flow), p, frame, at)
		if !p.icrcWrong {
			t.countTotal(p, at)
		}
	}
	if !named || !t.ownsShard(&about) {
		return
	}
	if !p.icrcWrong {
		t.countTotal(p, at)
	}
	s := t.streamOfNotice(p, &about)
	if s == nil {
		s = t.streamOf(&about)
		if e := t.earlies.allocate(&s.early); !e.notified {
			e.notified, e.from = true, p.pkt.Flow
		} else if e.from != p.pkt.Flow { // another source, for which there is no field
			t.countStray(t.streamSparing(s, &p.pkt.Flow), p, frame, at)
			return
		}
	}
	t.markTouched(s)
	s.addSettled().countPacket(p, at)
	if p.icrcWrong { // its receiver drops it
		if e := t.evidenceOf(s.flow); e != nil {
			e.signs[SignWrongAnswer].addFrame(frame, at)
		}
		return
	}
	if p.nHops > 0 {
		t.addFlow(s).queue.raise(p.queue)
	}
	if series := t.seriesOf(s.flow); series != nil {
		series.recordNotice(p, frame, at)
	}
	if e := t.evidenceOf(s.flow); e != nil {
		e.recordNotice(noticeKinds[p.kind-fastKind], &p.pkt.Flow, p.trafficClass, p.pcp, frame, at)
		t.episodes.allocate(&e.episodes).addSign(at)
	}
	if p.kind == fastKind {
		t.recordCNP(t.addFlow(s), true, frame, at)
	}
}

// countStray counts a message that matches no flow, in the stream of its own addresses.
func (t *Table) countStray(s *stream, p *Packet, frame uint64, at int64) {
	s.addOthers().stray.countPacket(p, at)
	if p.icrcWrong {
		t.recordAnswerSign(s, wrongAnswer, frame, at)
	}
}

// streamOfNotice returns the stream of the flow named by a message, or nil if it has no data.
func (t *Table) streamOfNotice(p *Packet, about *key) *stream {
	if s := t.findStream(about); s != nil && s.flow.hasData() {
		return s
	}
	if p.kind != ppfcKind {
		return nil
	}
	// DestQP of a PPFC may be the sender's queue pair, as in a CNP (D15: the draft does not define
	// it).
	k := about.Reversed(about.QP & maxQP)
	if s := t.findStream(&k); s != nil {
		if partner := t.partnerOf(s); partner != nil && partner.flow.hasData() {
			return partner
		}
	}
	return nil
}

// labels maps an outer flow label to the flow last seen with it. Labels are local to the ingress of
// a tunnel.
type labels struct{ flowtable.Table[key, key] }

// maxLabels is the number of labels kept; the least recently used one is evicted.
const maxLabels = 1 << 14

func newLabels() labels { return labels{flowtable.New[key, key](maxLabels, true, (*key).Hash)} }

// labelKey returns the key of a label of 20 bits, with 0 for none.
func (p *Packet) labelKey() key { return key{Src: p.ingress, Domain: p.label} }

// addData records the label of a tunnelled request or response.
func (l *labels) addData(p *Packet) {
	if p.label == 0 {
		return
	}
	k := p.labelKey()
	hash := k.Hash(l.Seed)
	flow, id := l.Find(&k, hash)
	if flow == nil {
		flow = l.Value(l.AddOrEvict(&k, hash))
	} else {
		l.Renew(id, 0)
	}
	*flow = p.pkt.Flow
}

// lookUpFlow returns the flow that an FCN is about.
func (l *labels) lookUpFlow(p *Packet) (flow key, ok bool) {
	k := p.labelKey()
	if flow, _ := l.Find(&k, k.Hash(l.Seed)); flow != nil {
		return *flow, true
	}
	return key{}, false
}

// names maps a source and a queue pair number to a flow, if the source uses that number at a single
// destination.
type names struct {
	flows map[key]key // by source and queue pair
	full  bool        // limit reached: no flow can be called the only one
}

// maxNames is the maximum number of names.
const maxNames = 1 << 17

func (n *names) addFlow(k *key) {
	if n.full {
		return
	}
	id := key{Src: k.Src, QP: k.QP}
	switch old, ok := n.flows[id]; {
	case !ok && len(n.flows) == maxNames:
		n.flows, n.full = nil, true
	case !ok && n.flows == nil:
		n.flows = map[key]key{id: *k}
	case !ok:
		n.flows[id] = *k
	case old != *k && old.QP&withoutQP == 0:
		n.flows[id] = key{QP: withoutQP} // not unique
	}
}

// lookUpFlow returns the only flow from the source of k to the queue pair number of k.
func (n *names) lookUpFlow(k *key) (key, bool) {
	flow, ok := n.flows[key{Src: k.Src, QP: k.QP}]
	return flow, ok && flow.QP&withoutQP == 0
}

// noticeKinds are the kinds of notifications, indexed from fastKind.
var noticeKinds = [...]NoticeKind{NoticeFastCNP, NoticePPFC, NoticeFCN, NoticeProxy}
