package flows

import "github.com/rocecn/rocecn/internal/flowtable"

// notice records a message that names the flow that it is about: a Fast CNP, a
// PPFC, an FCN or a proxy message.
func (t *Table) notice(p *Packet, frame uint64, at int64) {
	about, named := p.about, p.about.QP&withoutQP == 0
	switch {
	case p.kind == fcnKind:
		about, named = t.labels.find(p)
	case p.kind == ppfcKind && named && about.Dst == p.pkt.Flow.Src:
		// The address is the node's own (D15), and only DestQP names the flow.
		if k, ok := t.names.find(&about); ok {
			about = k
		}
	}
	if !named && t.mine(&p.pkt.Flow) {
		t.stream(&p.pkt.Flow).stray.count(p, at)
		t.totalled(p, at)
	}
	if !named || !t.mine(&about) {
		return
	}
	t.totalled(p, at)
	s := t.named(p, &about)
	if s == nil {
		s = t.stream(&about)
		if e := t.earlies.of(&s.early); !e.heard {
			e.heard, e.from = true, p.pkt.Flow
		} else if e.from != p.pkt.Flow { // somebody else, whom there is no room for
			t.beside(s, &p.pkt.Flow).stray.count(p, at)
			return
		}
	}
	t.touch(s)
	s.settled.count(p, at)
	if p.nHops > 0 {
		s.flow.queue.deeper(p.queue)
	}
	if series := t.series(&s.flow); series != nil {
		series.noticed(p, frame, at)
	}
	if e := t.evidence(&s.flow); e != nil {
		e.notice(noticeKinds[p.kind-fastKind], &p.pkt.Flow, p.trafficClass, p.pcp, frame, at)
	}
	if p.kind == fastKind {
		t.notified(&s.flow, true, frame, at)
	}
}

// named returns the stream whose flow a message is about, nil if no request of
// it was seen.
func (t *Table) named(p *Packet, about *key) *stream {
	if s := t.find(about); s != nil && s.flow.Packets > 0 {
		return s
	}
	if p.kind != ppfcKind {
		return nil
	}
	// By DestQP a PPFC may mean the queue pair of the sender, as a CNP does (D15:
	// the draft does not say whose it is).
	k := about.Reversed(about.QP & maxQP)
	if s := t.find(&k); s != nil {
		if with := t.known(s); with != nil && with.flow.Packets > 0 {
			return with
		}
	}
	return nil
}

// labels say which flow was seen last under an outer flow label, which means
// something only to the ingress of its tunnel.
type labels struct{ flowtable.Table[key, key] }

// maxLabels is how many labels are kept; the one seen longest ago goes when there
// is one more.
const maxLabels = 1 << 14

func newLabels() labels { return labels{flowtable.New[key, key](maxLabels, true, (*key).Hash)} }

// labelled returns the key of a label: of 20 bits, 0 is none.
func (p *Packet) labelled() key { return key{Src: p.ingress, Domain: p.label} }

// add records the label of a request that came in a tunnel.
func (l *labels) add(p *Packet) {
	if p.label == 0 {
		return
	}
	k := p.labelled()
	hash := k.Hash(l.Seed)
	flow, id := l.Find(&k, hash)
	if flow == nil {
		flow = l.At(l.Put(&k, hash))
	} else {
		l.Renew(id, 0)
	}
	*flow = p.pkt.Flow
}

// find returns the flow that an FCN is about.
func (l *labels) find(p *Packet) (flow key, ok bool) {
	k := p.labelled()
	if flow, _ := l.Find(&k, k.Hash(l.Seed)); flow != nil {
		return *flow, true
	}
	return key{}, false
}

// names finds the flow from a source to a queue pair number, if the source sends to
// that number at one destination only.
type names struct {
	flows map[key]key // by source and queue pair
	full  bool        // there was no room for all: then nothing is the only one
}

// maxNames is how many names are kept.
const maxNames = 1 << 17

func (n *names) add(k *key) {
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
		n.flows[id] = key{QP: withoutQP} // several
	}
}

// find returns the only flow of the source of k to the queue pair of k.
func (n *names) find(k *key) (key, bool) {
	flow, ok := n.flows[key{Src: k.Src, QP: k.QP}]
	return flow, ok && flow.QP&withoutQP == 0
}

// noticeKinds are the kinds of notices from fastKind on.
var noticeKinds = [...]NoticeKind{NoticeFastCNP, NoticePPFC, NoticeFCN, NoticeProxy}
