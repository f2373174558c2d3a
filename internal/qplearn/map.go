package qplearn

import (
	"iter"
	"math/rand/v2"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/flowtable"
)

// A Map has the learned pairs. Make one with [New].
type Map struct {
	cfg    Config
	clock  clock
	random *rand.PCG // the same for all seeds, so that full tables give the same results
	stats  Stats

	pairs     table[Entry]
	pending   exchanges[exchange]
	announced exchanges[announcement]
	open      table[open]
	recent    recent
	ports     recent       // the same by UDP source port, with Config.Ports
	users     [ways]uint32 // see Asked
	contest   int32        // moment of the last evidence against any pair; 0 never

	unanswered uint32 // CM exchanges that contradicted pairs in use since the last one that was answered: see flood

	slots slot // that have been used: no look-up is needed in the others

	learned      [2]uint32 // ids of the pairs that the last Learn learned
	learnedCount uint32
	accepted     uint32 // id of the pending exchange that the last Learn completed, 0 for none
	ended        key    // of a pair that the last Learn ended, if hasEnded
	hasEnded     bool
	counted      bool // the packet of Learn is counted in Stats.Unlearned or Stats.Full
}

// New returns an empty Map, with all of its memory unless Config.Grow.
func New(cfg Config) *Map {
	cfg = cfg.withDefaults()
	m := &Map{
		cfg:       cfg,
		clock:     clock{ticks: 1 << 20},
		random:    rand.NewPCG(0, 0),
		pairs:     newTable[Entry](cfg.MaxPairs, cfg.Grow),
		pending:   newExchanges[exchange](cfg.MaxPending, cfg.Grow, true),
		announced: newExchanges[announcement](2*cfg.MaxPending, cfg.Grow, false),
		open:      newTable[open](cfg.MaxOpen, cfg.Grow),
		recent:    newRecent(max(entriesPerFlow*cfg.MaxOpen, minEntries), cfg.Seed, cfg.Grow),
	}
	m.open.Seed, m.announced.Seed = m.pairs.Seed, m.pairs.Seed // each key is hashed once
	if cfg.Ports {
		m.ports = newRecent(max(entriesPerFlow*cfg.MaxOpen, minEntries), cfg.Seed, cfg.Grow)
	}
	return m
}

// Learn learns from a packet that was seen now, and returns the number of pairs learned,
// which [Map.Learned] yields. It does not allocate unless Config.Grow, and does not keep o.
func (m *Map) Learn(o *Observation, now time.Time) (learned int) {
	m.clock.seen(now)
	m.learnedCount, m.users, m.accepted, m.hasEnded, m.counted = 0, [ways]uint32{}, 0, false, false
	op := o.Opcode
	if !op.IsKnown() || op == bth.CNP || o.Rejected {
		return 0
	}
	k := &o.Flow
	switch {
	case k.DestQP() <= managementQP:
		m.observeCM(o, k)
	case op.Headers().Has(bth.HasDETH):
		m.observeDatagram(o, k)
	case k.DestQP() == multicastQP: // no connection has it
	case response(op):
		m.observeResponse(o, k)
	default:
		m.observeRequest(o, k)
	}
	return int(m.learnedCount)
}

// entriesPerFlow is the average number of entries of remembered requests for each of MaxOpen flows.
const entriesPerFlow = 8

// minEntries is the number of these entries with few flows: the seed hardly ever decides which pairs
// these have.
const minEntries = 1 << 14

// multicastQP is the queue pair of multicast datagrams.
const multicastQP = 0xFFFFFF

// managementQP is the higher of the two queue pairs, 0 and 1, that carry only
// management datagrams.
const managementQP = 1

// Now sets the time, which otherwise is that of the packet last learned from.
func (m *Map) Now(now time.Time) { m.clock.set(now) }

// Sender returns the pair of the sender of a flow's last packet, valid until the next packet.
// Without a pair it returns nil, and reports whether several senders are possible.
func (m *Map) Sender(k *flowtable.Key) (e *Entry, ambiguous bool) {
	if e = m.pairs.find(k); e != nil && m.idle(e) {
		e = nil
	}
	if e == nil || e.stray {
		for _, s := range [...]slot{besideSlot, datagramSlot} {
			if other := m.findIn(k, s); other != nil && other.sentLast() {
				return m.believe(other)
			}
		}
	}
	if e == nil {
		return nil, m.undecided(k)
	}
	sent := e.sentLast()
	if e, ambiguous = m.believe(e); e != nil && !sent {
		return nil, false
	}
	return e, ambiguous
}

// SenderAmid is [Map.Sender] for a flow in which packets of a connection are mixed with forged ones: if the last packet
// belongs to no connection, it returns the pair of the packets before it. It does not if that connection may be the
// forged one: if it has no answers, or if requests outside its lifetime follow one another.
func (m *Map) SenderAmid(k *flowtable.Key) (e *Entry, ambiguous bool) {
	if e, ambiguous = m.Sender(k); e != nil || ambiguous {
		return e, ambiguous
	}
	if e = m.findIn(k, 0); e == nil || e.unsure() || !e.isMixed(m.now()) || !e.wasAnswered() {
		return nil, false
	}
	if f := m.open.find(k); f == nil || f.hasSuccessive() {
		return nil, false
	}
	return m.believe(e)
}

// mixed is the time for which a connection counts as the sender of a flow after its last packet, although other packets
// have come since. It is shorter than two hosts need to connect the same queue pair again.
const mixed = 50 * time.Millisecond

// isMixed reports whether packets of a pair's connection are mixed with others in its flow: one has come a short time
// ago, and so has one after a packet of another sender. So the others are forged.
func (e *Entry) isMixed(now int32) bool {
	return e.From != BasisUD && e.confirmed != 0 && within(mixed, e.confirmed, now) && e.otherSeen != 0 &&
		within(mixed, e.otherSeen, now)
}

// sentLast reports whether the sender of a pair sent the flow's last packet, as far as can be told.
func (e *Entry) sentLast() bool { return !e.stray && (e.answering || !e.unsure()) }

// SenderOf is [Map.Sender] for the packet with this BTH instead of the flow's last one. A response
// has no known sender while there is evidence for another pair: if two connections use the same
// PSNs, only the last packet shows its sender.
func (m *Map) SenderOf(k *flowtable.Key, h *bth.Header) (e *Entry, ambiguous bool) {
	if e = m.pairs.find(k); e == nil || m.idle(e) {
		ambiguous = m.undecided(k)
	} else if e, ambiguous = m.believe(e); m.mayHaveSent(e, h) {
		return e, false
	}
	for _, s := range [...]slot{besideSlot, datagramSlot} {
		if other := m.findIn(k, s); other != nil && m.mayHaveSent(other, h) {
			return m.believe(other)
		}
	}
	return nil, ambiguous
}

// Connects reports whether the receiver of a flow has a connection with a queue pair at the source, and so may send
// there, or without one whether several are possible. Unlike with [Map.Sender] it does not matter which queue pair sent
// the flow's last packet, which may be forged.
func (m *Map) Connects(k *flowtable.Key) (connects, ambiguous bool) {
	for _, s := range [...]slot{0, besideSlot} {
		if e := m.findIn(k, s); e != nil && m.mate(e) != nil {
			if e, several := m.believe(e); e != nil {
				return true, false
			} else {
				ambiguous = ambiguous || several
			}
		}
	}
	return false, ambiguous || m.undecided(k)
}

// mayHaveSent reports whether the packet with this BTH may have the sender of a pair, if there is a pair.
func (m *Map) mayHaveSent(e *Entry, h *bth.Header) bool {
	if e == nil {
		return false
	}
	mate := m.mate(e)
	questioned := mate != nil && response(h.Opcode) && (e.questioned() || mate.questioned())
	return !questioned && e.explains(mate, h.Opcode, h.PSN)
}

// explains reports whether a packet may belong to a pair's connection: a request to the lifetime of its
// flow, a response to that of the other direction. The pair of the other direction is back, or nil
// if there is none. A datagram belongs to no connection, and a pair from a datagram holds only for
// datagrams.
func (e *Entry) explains(back *Entry, op bth.Opcode, psn uint32) bool {
	t, datagram := op.Transport(), op.Headers().Has(bth.HasDETH)
	switch {
	case e.From == BasisGiven:
		return true
	case datagram || e.From == BasisUD:
		return datagram && e.From == BasisUD
	case !response(op):
		return !e.unsure() && e.lifetime.contains(psn, t)
	default:
		return back != nil && !back.unsure() && back.lifetime.answers(psn, t)
	}
}

// response reports whether an opcode is a response: an acknowledgement or a READ response.
func response(op bth.Opcode) bool {
	return op.Operation() >= bth.OpRDMAReadResponseFirst && op.Operation() <= bth.OpAtomicAcknowledge
}

// undecided reports whether several senders are possible for a flow without a pair.
func (m *Map) undecided(k *key) bool {
	f := m.open.find(k)
	return f != nil && f.votes.undecided(&m.cfg)
}

// believe returns a pair, or nil and true if several are possible.
func (m *Map) believe(e *Entry) (believed *Entry, ambiguous bool) {
	switch {
	case e.From == BasisGiven:
	case e.contested, e.From == BasisUD && e.otherSeen != 0 && within(m.cfg.Idle, e.otherSeen, m.now()):
		return nil, true
	}
	return e, false
}

// Add replaces the pair of the flow, and reports whether there was space for the new one: a pair
// from [BasisGiven], with Seen ignored, or one that another Map learned.
func (m *Map) Add(k *flowtable.Key, p Pair) bool {
	m.counted = true // it is no packet
	added := Entry{
		SrcQP: p.SrcQP, PKey: p.PKey, MTU: p.MTU, Transport: p.Transport, From: p.From, seen: m.clock.ticks,
	}
	if p.From == BasisGiven {
		added.confirmed = m.now()
	}
	named := keyIn(k, 0)
	switch p.From {
	case BasisGiven:
		m.Remove(k)
	case BasisUD:
		named = keyIn(k, datagramSlot)
		m.slots |= datagramSlot
	}
	m.pairs.remove(&named)
	e := m.makePair(&named, added.list())
	if e == nil {
		return false
	}
	if p.From != BasisGiven {
		added.seen = m.clock.ticksAt(p.Seen)
		added.local, added.remote = rand.Uint32(), rand.Uint32() // no CM message can end it: the ids are not known here
	}
	e.set(added)
	return true
}

// Remove forgets the pair of a flow, also a given one, and reports whether there was one.
func (m *Map) Remove(k *flowtable.Key) (removed bool) {
	for _, s := range [...]slot{0, besideSlot, datagramSlot} {
		named := keyIn(k, s)
		removed = m.pairs.remove(&named) || removed
	}
	return removed
}

// All yields the pairs that [Map.Sender] would return, in no particular order. The loop
// must not change the Map.
func (m *Map) All() iter.Seq2[*flowtable.Key, *Entry] {
	return func(yield func(*flowtable.Key, *Entry) bool) {
		var k key
		for at := range m.pairs.All() {
			k = keyIn(m.pairs.Key(at), 0)
			if e, _ := m.Sender(&k); e != nil && e.id == at && !yield(&k, e) {
				return
			}
		}
	}
}

// Learned yields the pairs that the last [Map.Learn] learned: one of a datagram,
// otherwise those of both directions. The loop must not change the Map.
func (m *Map) Learned() iter.Seq2[*flowtable.Key, *Entry] {
	return func(yield func(*flowtable.Key, *Entry) bool) {
		for _, at := range m.learned[:m.learnedCount] {
			if !yield(m.pairs.Key(at), m.pairs.Value(at)) {
				return
			}
		}
	}
}

// Asked yields the destination queue pairs of some flows that the response of the last
// [Map.Learn] may answer, as they used its PSN, while no pair says which of them it does.
// The loop must not change the Map.
func (m *Map) Asked() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for _, qp := range m.users {
			if qp != 0 && !yield(qp) {
				return
			}
		}
	}
}

// Expire forgets all entries that have been idle for Config.Idle, and returns the number of these
// pairs. Calling it is optional: it only frees space early.
func (m *Map) Expire(now time.Time) int {
	m.clock.set(now)
	pairs := m.pairs.Expire(m.idle)
	m.pending.Expire(func(x *exchange) bool { return m.past(x.seen) })
	m.announced.Expire(func(a *announcement) bool { return m.past(a.seen) })
	m.open.Expire(func(o *open) bool { return m.past(o.seen) })
	m.stats.Expired += uint64(pairs)
	return pairs
}

// Stats returns the counters.
func (m *Map) Stats() Stats {
	s := m.stats
	s.Pairs, s.Pending, s.Open = m.pairs.Len(), m.pending.Len(), m.open.Len()
	return s
}
