package flows

import (
	"time"

	"github.com/rocecn/rocecn/bth"
)

// Config is what a user chooses. The zero value stands for the defaults.
type Config struct {
	// MaxFlows is how many flows are kept at once, 131,072 if 0, the answers to
	// two flows taking the place of a third. A flow takes 1 KB, with requests
	// that follow one another 3 KB, and 2 KB more for each of its two
	// distributions of times.
	MaxFlows int
	// Shard and Shards divide the flows among several tables that see the same
	// packets: this one keeps what belongs to the address pairs of shard number
	// Shard, 0 to Shards-1. What all of them report is what one without shards
	// does. 0 and 1 Shards are no division.
	Shard, Shards int
	// Series keeps how each flow went over time, for [Table.Series], in 7 KB more a
	// flow.
	Series bool
}

const (
	defaultMaxFlows = 1 << 17
	maxLinks        = 1 << 12 // source addresses of PFC frames
)

// A Table keeps account of flows. It is not safe for concurrent use.
//
// When it is full, it gives up a flow that has not been seen for long, those
// with a single packet first, and adds its counts to what [Table.Evicted]
// returns. A flow that comes back later is a new one. Counts never go to
// another flow.
type Table struct {
	config  Config
	streams pool[stream]
	index   index
	numbers uint32 // given to streams so far
	hand    uint32 // the stream that is asked next to make room
	held    uint32 // the one that makes no room now, and one
	evicted Evicted

	histories  pool[history]
	histograms pool[Histogram]
	earlies    pool[early]
	serieses   pool[series]

	recent recents
	opens  opens
	labels labels
	names  names
	links  map[[6]byte]*link

	order uint64 // of what was taken up last
	stats Stats
}

// Stats counts what a [Table] was given.
type Stats struct {
	Packets uint64 // all of them
	Others  uint64 // of these, none of ours
	Broken  uint64 // of ours that do not parse
	Links   uint64 // PFC frames given up, as they came from too many addresses
}

// New returns an empty table.
func New(c Config) *Table {
	if c.MaxFlows <= 0 {
		c.MaxFlows = defaultMaxFlows
	}
	return &Table{config: c, links: map[[6]byte]*link{}}
}

// Stats returns what the table was given so far.
func (t *Table) Stats() Stats { return t.stats }

// Observe takes up a packet, the one with this number in its capture, that was
// seen now. Packets come in the order in which they were captured; time may
// jump back.
func (t *Table) Observe(p *Packet, frame uint64, now time.Time) {
	t.stats.Packets++
	t.order++
	at := nanoseconds(now)
	switch p.kind {
	case nothing:
		t.stats.Others++
	case broken:
		t.stats.Broken++
	case request:
		if p.tunnelled {
			t.labels.add(p)
		}
		if t.mine(&p.pkt) {
			t.request(p, frame, at)
		} else {
			t.names.add(&p.pkt)
		}
	case answer, cnpKind:
		if t.mine(&p.pkt) {
			t.answer(p, at)
		}
	case pfcKind:
		t.pause(&p.pause, at)
	default:
		t.notice(p, at)
	}
}

// nanoseconds returns the time since 1970, 0 for one that 64 bits have no room
// for, as is that of a capture without times.
func nanoseconds(t time.Time) int64 {
	if s := t.Unix(); s < -1<<33 || s > 1<<33 {
		return 0
	}
	return t.UnixNano()
}

// mine says whether a packet with these addresses belongs to the table's shard.
func (t *Table) mine(k *key) bool {
	return t.config.Shards <= 1 || k.pair()%uint64(t.config.Shards) == uint64(t.config.Shard)
}

// request takes up a request.
func (t *Table) request(p *Packet, frame uint64, at int64) {
	s, name := t.refer(&p.pkt)
	f := &s.flow
	if f.packets == 0 {
		f.first, f.last = at, at
		t.claim(s)
		t.names.add(&s.key)
	}
	f.count(p, at)
	series := t.series(f)
	if series != nil {
		series.packet(p, at)
	}
	r := &roles[p.opcode]
	transport := p.opcode.Transport()
	if !sequenced(transport, s.key.qp) {
		f.countMessage(r)
		if transport == bth.TransportUD && !p.noHeaders {
			t.source(s, name, p.srcQP)
		}
		if p.cm.attribute != 0 {
			t.connect(p, at)
		}
		return
	}
	if r.whole && isMTU(p.payload) {
		t.learnMTU(s, uint16(p.payload))
	}
	if s.pairing.next.with.id != 0 {
		t.announced(s, name, p.psn)
	}
	n, more := f.takes(p, r)
	var h *history
	if f.history != 0 || f.packets > 1 || f.sequence.begun {
		h = t.history(f)
	}
	before := f.sequence
	verdict := f.sequence.request(p.psn, n, more, h)
	if f.sequence.counts.Lives != before.counts.Lives && s.pairing.ended {
		t.settle(s)
		t.part(s)
	}
	if before.slack > 0 && verdict == inOrder {
		h.resolve(before.read, p.psn)
	}
	if transport != bth.TransportUC {
		if s.pairing.open() && (p.ackReq || r.begins || r.completes || !s.pairing.sure()) {
			t.recent.add(s, name, p.psn, n)
		}
		o := opening{p.psn, n + more, p.asked, at, t.order, p.ackReq, r.message == Read, r.message == Atomic, true}
		if p.noHeaders {
			o.octets = unknownLength
		}
		if f.sequence.hasCover && ahead(p.psn, f.sequence.cover) <= 0 { // the answer came first: two packets changed places
			o.ackReq = false
		}
		switch {
		case verdict == repeated:
			h.marks.repeated(span{p.psn, after(p.psn, n)})
		case h == nil:
			f.opening = o
		default:
			h.note(&o)
		}
	}
	cause := Timeout
	switch {
	case verdict == repeated && transport == bth.TransportUC:
		return // UC repeats nothing: it is a copy
	case verdict == repeated:
		cause = h.cause(p.psn, r.message == Read)
		f.sequence.counts.Repeats++
		f.sequence.causes.add(cause)
	default:
		f.countMessage(r)
	}
	if series != nil {
		gap, life := uint32(0), uint64(0)
		if verdict == beyondGap {
			gap = uint32(ahead(p.psn, after(before.next, before.slack)))
		}
		if now := f.sequence.counts.Lives; now != before.counts.Lives {
			life = now
		}
		series.sequenced(p, frame, at, verdict, gap, life, cause)
	}
	if f.trouble == 0 && (verdict == repeated || verdict == beyondGap) {
		f.trouble = frame
	}
}

// history returns the history of a flow, and begins it if there is none.
func (t *Table) history(f *flow) *history {
	if f.history == 0 {
		f.history = t.histories.take() + 1
		if f.opening.set {
			t.histories.at(f.history - 1).note(&f.opening)
			f.opening.set = false
		}
	}
	return t.histories.at(f.history - 1)
}

// histogram returns one of a flow's histograms, by where its number is.
func (t *Table) histogram(number *uint32) *Histogram {
	if *number == 0 {
		*number = t.histograms.take() + 1
	}
	return t.histograms.at(*number - 1)
}

// learnMTU takes up the path MTU of a connection, seen in the stream s.
func (t *Table) learnMTU(s *stream, mtu uint16) {
	t.setMTU(s, mtu)
	if other := t.get(s.pairing.with); other != nil {
		t.setMTU(other, mtu)
	}
}

func (t *Table) setMTU(s *stream, mtu uint16) {
	f := &s.flow
	if f.mtu != 0 {
		return
	}
	f.mtu = mtu
	if f.sequence.slack == 0 {
		return
	}
	h := t.history(f)
	if a := h.find(f.sequence.read); a != nil && a.octets != unknownLength {
		a.to = after(a.from, responses(a.octets, uint32(mtu)))
		f.sequence.resolve(a.to)
	}
}
