package flows

import (
	"time"

	"github.com/rocecn/rocecn/internal/hash"
)

// twins finds out whether the capture has each packet twice, as with two mirrors of the same traffic,
// and then recognizes the second copies.
//
// The first packets wait until that is known. Two packets are copies if their addresses, ports, BTHs,
// Identifications and lengths are equal, outside tunnels, and they come within 1 ms. A third such
// packet is a retransmission, which comes twice as well.
type twins struct {
	decided bool
	on      bool
	slots   []twin // by hash, while undecided or on
	waiting pool[waitingPacket]
	latest  int64 // of the waiting packets

	found  uint64 // packets that can be compared
	copies uint64 // of these, second copies
}

// A twin is a packet that may come again.
type twin struct {
	hash    uint64
	at      int64
	index   uint32 // id in twins.waiting
	class   uint8  // traffic class
	marked  bool   // see Packet.isMarked
	matched bool
}

const (
	twinSlots     = 1 << 14
	twinWays      = 4 // slots in which a packet may be
	twinDistance  = int64(time.Millisecond)
	maxUndecided  = 4096 // packets that wait
	undecidedStep = 64   // packets after which the decision is tried, and each time that they double
	minTwins      = 16   // packets that are needed for a decision at the end of the capture
	soonTwins     = 256  // packets that are enough before
)

// hashTwin returns a hash of the fields in which copies of a packet agree, or 0 for packets that are
// not compared.
func (p *Packet) hashTwin() uint64 {
	o := &p.pkt
	one := uint64(o.PSN)<<32 | uint64(o.Opcode)<<24 | uint64(o.Syndrome)<<16 | uint64(p.ident)
	two := uint64(o.SrcPort)<<32 | uint64(p.ipOctets)<<8 | uint64(p.kind)<<1
	if o.AckReq {
		two |= 1
	}
	switch p.kind {
	case requestKind:
		if c := &p.pkt.CM; c.Attribute != 0 { // messages of several connections may have the same PSN
			two ^= hash.Mix(uint64(c.Attribute)<<32|uint64(c.Local), uint64(c.Remote)|1<<32)
		}
	case answerKind, cnpKind, trimmedKind:
	case fastKind, ppfcKind, proxyKind:
		one ^= p.about.Hash(0)
	case fcnKind:
		one = uint64(p.label)
	default:
		return 0
	}
	return hash.Mix(o.Flow.Hash(one)^two, 0xE7037ED1A0B428DB) | 1
}

// observeTwins is observePacket for a packet that may be a second copy.
func (t *Table) observeTwins(p *Packet, frame uint64, at int64) {
	w := &t.capture.twins
	switch {
	case !w.decided && w.waiting.n == 0 && p.hashTwin() == 0:
		t.observePacket(p, frame, at) // before any packet that can be compared
	case !w.decided:
		w.wait(p, frame, at)
		if n := w.waiting.n; n >= undecidedStep && n&(n-1) == 0 {
			t.processTwins(false)
		}
	case !w.on || !t.isCopy(p, frame, at):
		t.observePacket(p, frame, at)
	}
}

// wait keeps a packet until it is known whether each packet comes twice.
func (w *twins) wait(p *Packet, frame uint64, at int64) {
	if w.slots == nil {
		w.slots = make([]twin, twinSlots)
	}
	w.latest = max(w.latest, at)
	var id uint32
	kept := w.waiting.allocate(&id)
	kept.Packet, kept.frame, kept.at, kept.twin = *p, frame, at, p.hashTwin()
	h := kept.twin
	if h == 0 {
		return
	}
	one := w.find(h, at)
	if one.isTwin(h, at) && one.index < id {
		one.matched = true
		w.waiting.lookUp(one.index).twinned, kept.twinned = true, true
		return
	}
	*one = twin{hash: h, at: at, index: id}
}

// find returns the slot of the packet of which one with this hash is a copy, or the slot for a new
// packet.
func (w *twins) find(h uint64, at int64) *twin {
	slots := w.slots[h%(twinSlots/twinWays)*twinWays:][:twinWays]
	oldest := &slots[0]
	for i := range slots {
		one := &slots[i]
		if one.isTwin(h, at) {
			return one
		}
		if one.hash == 0 || one.at < oldest.at && oldest.hash != 0 {
			oldest = one
		}
	}
	return oldest
}

// isTwin reports whether a packet with this hash is the second copy of the twin.
func (one *twin) isTwin(h uint64, at int64) bool {
	d := at - one.at
	return one.hash == h && !one.matched && d <= twinDistance && d >= -twinDistance
}

// processTwins decides whether each packet comes twice, if it can be decided, and records the waiting
// packets. At the end no more packets are expected at first.
func (t *Table) processTwins(end bool) {
	w := &t.capture.twins
	waiting := w.waiting
	if w.decided || waiting.n == 0 {
		return
	}
	end = end || waiting.n >= maxUndecided
	var compared, twinned int // packets of which a copy would have come
	for i := range waiting.n {
		if p := waiting.lookUp(i + 1); p.twin != 0 && (end || p.twinned || w.latest-p.at > twinDistance) {
			compared++
			if p.twinned {
				twinned++
			}
		}
	}
	switch {
	case end && compared < minTwins: // still undecided
	case end, compared >= soonTwins, compared >= minTwins && 2*twinned < compared:
		w.decided, w.on = true, compared >= minTwins && 10*twinned >= 9*compared
	default:
		return
	}
	w.waiting = pool[waitingPacket]{}
	if clear(w.slots); w.decided && !w.on {
		w.slots = nil
	}
	t.capture.setPath()
	for i := range waiting.n {
		if p := waiting.lookUp(i + 1); !w.on || !t.isCopy(&p.Packet, p.frame, p.at) {
			t.observePacket(&p.Packet, p.frame, p.at)
		}
	}
}

// isCopy records a packet if it is the second copy of another one, and reports whether it is. The
// packet has CE if either copy has.
func (t *Table) isCopy(p *Packet, frame uint64, at int64) bool {
	w, h := &t.capture.twins, p.hashTwin()
	if h == 0 {
		return false
	}
	w.found++
	one := w.find(h, at)
	if !one.isTwin(h, at) {
		*one = twin{hash: h, at: at, class: p.trafficClass, marked: p.isMarked()}
		return false
	}
	one.matched = true
	w.copies++
	t.stats.Packets++
	isResponse := p.kind == answerKind && roles[p.pkt.Opcode].isResponse()
	if p.kind != requestKind && !isResponse || !t.ownsShard(&p.pkt.Flow) {
		return true
	}
	s := t.findStream(&p.pkt.Flow)
	if s == nil || !s.flow.hasData() {
		return true
	}
	copies, counts := &s.flow.sequence.counts.Copies, &s.flow.ECN
	if r := t.responses.lookUp(s.flow.responses); isResponse && r != nil {
		copies, counts = &r.PSN.Copies, &r.ECN
	}
	*copies++
	if p.isMarked() && !one.marked {
		if p.trafficClass&3 == 3 {
			counts[one.class&3] -= min(counts[one.class&3], 1)
			counts[3]++
		} else {
			t.outers.allocate(&s.flow.outer).marked++
		}
		t.recordLateCE(s.flow, p, frame, at)
	}
	return true
}

// recordLateCE records CE in a second copy; the first copy of the packet came without CE.
func (t *Table) recordLateCE(f *flow, p *Packet, frame uint64, at int64) {
	f.countMark(p, at)
	if series := t.seriesOf(f); series != nil {
		series.beginOnset(at)
		for _, b := range series.talliesAt(at) {
			b.CE++
		}
		t.totalAt(at).CE++
	}
	if e := t.evidenceOf(f); e != nil {
		e.signs[SignCE].addFrame(frame, at)
	}
}

// isEachTwice reports whether the capture has each packet twice.
func (w *twins) isEachTwice() bool { return w.on && 2*10*w.copies >= 9*w.found }

// setPath chooses between the fast and the slow path of Observe.
func (c *captureState) setPath() { c.fast = c.twins.decided && !c.twins.on && !c.clock.jumped }
