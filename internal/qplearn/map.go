// Package qplearn learns from passing traffic which queue pairs belong together. Package qpmap
// describes the rules and exports the map to users of the library; package flows uses it with
// keys and times of its own.
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

	learned      [2]uint32 // ids of the pairs that the last Learn learned
	learnedCount uint32
	accepted     uint32 // id of the pending exchange that the last Learn completed, 0 for none
	ended        key    // of a pair that the last Learn ended, if hasEnded
	hasEnded     bool
}

// New returns an empty Map, with all of its memory unless Config.Grow.
func New(cfg Config) *Map {
	cfg = cfg.withDefaults()
	m := &Map{
		cfg:       cfg,
		clock:     clock{ticks: 1 << 20},
		random:    rand.NewPCG(0, 0),
		pairs:     newTable[Entry](cfg.MaxPairs, cfg.Grow),
		pending:   newExchanges[exchange](cfg.MaxPending, cfg.Grow),
		announced: newExchanges[announcement](2*cfg.MaxPending, cfg.Grow),
		open:      newTable[open](cfg.MaxOpen, cfg.Grow),
		recent:    newRecent(entriesPerFlow*cfg.MaxOpen, cfg.Seed, cfg.Grow),
	}
	if cfg.Ports {
		m.ports = newRecent(entriesPerFlow*cfg.MaxOpen, cfg.Seed, cfg.Grow)
	}
	return m
}

// Learn learns from a packet that was seen now, and returns the number of pairs learned,
// which [Map.Learned] yields. It does not allocate unless Config.Grow, and does not keep o.
func (m *Map) Learn(o *Observation, now time.Time) (learned int) {
	m.clock.seen(now)
	m.learnedCount, m.users, m.accepted, m.hasEnded = 0, [ways]uint32{}, 0, false
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
	case response(op):
		m.observeResponse(o, k)
	default:
		m.observeRequest(o, k)
	}
	return int(m.learnedCount)
}

// entriesPerFlow is the average number of entries of remembered requests for each of MaxOpen flows.
const entriesPerFlow = 8

// managementQP is the higher of the two queue pairs, 0 and 1, that carry only
// management datagrams.
const managementQP = 1

// Now sets the time, which otherwise is that of the packet last learned from.
func (m *Map) Now(now time.Time) { m.clock.set(now) }

// Sender returns the pair of the sender of a flow's last packet, valid until the next packet.
// Without a pair it returns nil, and reports whether several senders are possible.
func (m *Map) Sender(k *flowtable.Key) (e *Entry, ambiguous bool) {
	if e, ambiguous = m.lookUp(k); e != nil && e.stray {
		return nil, false
	}
	return e, ambiguous
}

// SenderOf is [Map.Sender] for the packet with this BTH instead of the flow's last one. A response
// has no known sender while there is evidence for another pair: if two connections use the same
// PSNs, only the last packet shows its sender.
func (m *Map) SenderOf(k *flowtable.Key, h *bth.Header) (e *Entry, ambiguous bool) {
	if e, ambiguous = m.lookUp(k); e != nil {
		forth := k.Reversed(e.SrcQP)
		back := m.pairs.find(&forth)
		questioned := back != nil && response(h.Opcode) && (e.questioned() || back.questioned())
		if questioned || !e.explains(back, h.Opcode, h.PSN) {
			return nil, false
		}
	}
	return e, ambiguous
}

// explains reports whether a packet may belong to a pair's connection: a request to the life of its
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
		return e.life.contains(psn, t)
	default:
		return back != nil && !back.unsure() && back.life.answers(psn, t)
	}
}

// response reports whether an opcode is a response: an acknowledgement or a READ response.
func response(op bth.Opcode) bool {
	return op.Operation() >= bth.OpRDMAReadResponseFirst && op.Operation() <= bth.OpAtomicAcknowledge
}

// lookUp returns the pair of a flow, or nil and whether several are possible.
func (m *Map) lookUp(k *key) (e *Entry, ambiguous bool) {
	e = m.pairs.find(k)
	switch {
	case e == nil:
		f := m.open.find(k)
		return nil, f != nil && f.votes.undecided(&m.cfg)
	case e.From == BasisGiven:
	case m.idle(e), e.unsure():
		return nil, false
	case e.contested, e.otherSeen != 0 && time.Duration(uint32(m.now()-e.otherSeen))<<20 <= m.cfg.Idle:
		return nil, true
	}
	return e, false
}

// Add replaces the pair of the flow, and reports whether there was space for the new one: a pair
// from [BasisGiven], with Seen ignored, or one that another Map learned.
func (m *Map) Add(k *flowtable.Key, p Pair) bool {
	added := Entry{
		SrcQP: p.SrcQP, PKey: p.PKey, MTU: p.MTU, Transport: p.Transport, From: p.From, seen: m.clock.ticks,
	}
	if p.From == BasisGiven {
		added.confirmed = m.now()
	}
	m.pairs.remove(k)
	e := m.makePair(k, added.list())
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
func (m *Map) Remove(k *flowtable.Key) bool { return m.pairs.remove(k) }

// All yields the pairs that [Map.Sender] would return, in no particular order. The loop
// must not change the Map.
func (m *Map) All() iter.Seq2[*flowtable.Key, *Entry] {
	return func(yield func(*flowtable.Key, *Entry) bool) {
		for at := range m.pairs.All() {
			k := m.pairs.Key(at)
			if e, _ := m.Sender(k); e != nil && !yield(k, e) {
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
