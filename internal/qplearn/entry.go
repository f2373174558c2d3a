package qplearn

import (
	"cmp"
	"math"
	"time"

	"github.com/rocecn/rocecn/bth"
)

// An Entry is a pair in the table, with the evidence for it.
type Entry struct {
	id        uint32   // in the table
	seen      int64    // ticks of the last packet that agreed with it
	lifetime  lifetime // the requests of the flow
	confirmed int32    // moment of the last data that agreed: a request of its lifetime, or an answer; 0 never
	answered  int32    // moment of the last answer; 0 never
	requested int32    // moment of the last request
	otherSeen int32    // UD: moment of the last packet of another source queue pair; otherwise see isMixed; 0 never
	SrcQP     uint32
	local     uint32 // CM: communication id of the flow's sender
	remote    uint32 // CM: of its receiver
	rival     uint32 // source that a CM exchange has named for the flow since data confirmed srcQP; 0 none
	rivalPSN  uint32 // first PSN of the rival
	contest   int32  // moment since which the requests may be another queue pair's; 0 never
	PKey      uint16 // of the REQ, or of the flow's last packet
	MTU       uint16 // path MTU in octets, 0 when not known
	weight    uint16 // answers seen
	Transport bth.Transport
	From      Basis
	sure      bool // the requests are srcQP's: they began with the announced PSN, or were answered
	stray     bool // the flow's last packet was not the connection's, as far as can be told
	answering bool // the flow's last packet that was the connection's is a response
	contested bool // something has spoken for another pair, and no answer for this one since
	overlaps  bool // the lifetime had reached rivalPSN when that was announced
	shared    bool // a CM exchange names another sender, and a first PSN in the lifetime of the other direction
	voted     bool // votes for another pair have been counted
	kept      bool // among the settled pairs although no data has confirmed it: see keeps
}

// now returns the moment of the last packet.
func (m *Map) now() int32 { return moment(m.clock.ticks) }

// The lists of the table of pairs.
const (
	unsettled = 0 // not confirmed by data
	settled   = 1 // confirmed by data, given, or kept
)

// keeps reports whether an announced pair is kept as if data had confirmed it, until the table is needed for pairs that
// data has confirmed: the table was less than half full when it came. So no flood of forged exchanges evicts the pairs
// announced before.
func (m *Map) keeps() bool { return m.pairs.Len() < m.cfg.MaxPairs/2 }

// list returns the list that a pair is in.
func (e *Entry) list() uint32 {
	if e.confirmed != 0 || e.kept {
		return settled
	}
	return unsettled
}

// silent reports whether no data has confirmed a pair for the time silence.
func (e *Entry) silent(now int32) bool { return e.confirmed == 0 || !within(silence, e.confirmed, now) }

// unsure reports whether the sender of the requests in a pair's lifetime is not known.
func (e *Entry) unsure() bool { return e.lifetime.requests > 0 && !e.sure }

// agrees reports whether the flow's last packet exists and agreed with a pair.
func (e *Entry) agrees() bool { return !e.stray && (e.lifetime.requests > 0 || e.confirmed != 0) }

// questioned reports whether there is evidence for another pair of the same flow.
func (e *Entry) questioned() bool { return e.contested || e.rival != 0 || e.shared }

// beginContest records evidence for another pair of the same flow.
func (m *Map) beginContest(e *Entry) { e.contest, m.contest = m.now(), m.now() }

// sinceContest returns the time since the last evidence for another pair.
func (e *Entry) sinceContest(now int32) time.Duration { return since(e.contest, now) }

// sinceContest returns the time since the last evidence for another pair of any flow.
func (m *Map) sinceContest() time.Duration { return since(m.contest, m.now()) }

// since returns the time since a moment, the longest one if the moment is 0 for never.
func since(then, now int32) time.Duration {
	if then == 0 {
		return math.MaxInt64
	}
	return time.Duration(uint32(now-then)) << 20
}

func (m *Map) past(ticks int64) bool { return m.clock.ticks-ticks > int64(m.cfg.Idle) }

func (m *Map) idle(e *Entry) bool { return e.From != BasisGiven && m.unused(e, m.cfg.Idle) }

// unused reports whether for this time no packet has agreed with a pair, nor with that of the other
// direction: a connection is forgotten as a whole, as half of one would contradict the next
// connection of its queue pair.
func (m *Map) unused(e *Entry, d time.Duration) bool {
	since := m.clock.ticks - int64(d)
	if e.seen >= since {
		return false
	}
	mate := m.mate(e)
	return mate == nil || mate.seen < since
}

// quiet reports whether no data has confirmed a pair, nor that of the other direction, for the time
// silence: if the capture has only one direction, both are in use.
func (m *Map) quiet(e *Entry) bool {
	if !e.silent(m.now()) {
		return false
	}
	mate := m.mate(e)
	return mate == nil || mate.silent(m.now())
}

// hash returns the hash of a flow, the same for all tables.
func (m *Map) hash(k *key) uint64 { return k.Hash(m.pairs.Seed) }

// find returns the pair of a flow if it is not idle, and forgets one that is, in both directions.
func (m *Map) find(k *key) *Entry { return m.findHashed(k, m.hash(k)) }

// findHashed is find for a key with this hash.
func (m *Map) findHashed(k *key, hash uint64) *Entry {
	e, _ := m.pairs.Find(k, hash)
	if e != nil && m.idle(e) {
		m.stats.Expired += m.remove(e)
		return nil
	}
	return e
}

// mate returns the pair of the other direction. Unless one of the two is given, both are idle, or none is: see unused.
func (m *Map) mate(e *Entry) *Entry {
	if e.From == BasisUD {
		return nil
	}
	k := m.pairs.Key(e.id)
	back := k.Reversed(e.SrcQP)
	back.QP |= k.QP & besideSlot
	mate := m.pairs.find(&back)
	if m.slots&besideSlot != 0 && (mate == nil || mate.SrcQP != k.DestQP()) { // in one direction there is no other pair
		back.QP ^= besideSlot
		mate = m.pairs.find(&back)
	}
	if mate != nil && mate.SrcQP == k.DestQP() {
		return mate
	}
	return nil
}

// drop forgets a pair and that of the other direction, unless that one is given.
func (m *Map) drop(e *Entry) {
	if mate := m.mate(e); mate != nil && mate != e && mate.From != BasisGiven {
		if mate.agrees() {
			k := m.flowOf(mate)
			if f := m.openFlow(&k); f != nil {
				f.pass(bth.CNP, 0) // no pair explains the packet, as its own is forgotten
			}
		}
		m.pairs.Remove(mate.id)
	}
	m.pairs.Remove(e.id)
}

// set replaces the pair in e, and keeps its place.
func (e *Entry) set(to Entry) {
	to.id = e.id
	*e = to
}

// use records that a packet agreed with a pair.
func (m *Map) use(e *Entry) {
	const step = 1 << 27 // ticks; no need to move an entry for each packet
	if e.seen/step != m.clock.ticks/step {
		m.pairs.Renew(e.id, e.list())
		if mate := m.mate(e); mate != nil {
			m.pairs.Renew(mate.id, mate.list())
		}
	}
	e.seen = m.clock.ticks
}

// confirm records that data confirmed the pairs of both directions. An answer to e also
// refutes the evidence for other pairs, which was forged or is outdated.
func (m *Map) confirm(e, mate *Entry, answered bool) {
	if answered && (e.voted || mate.voted) {
		m.forgetVotes(e, mate)
	}
	for _, e := range [...]*Entry{e, mate} {
		if e == nil {
			continue
		}
		if e.confirmed == 0 {
			m.pairs.Renew(e.id, settled)
		}
		e.confirmed = m.now()
		m.use(e)
		if answered {
			e.rival, e.shared = 0, false
		}
	}
}

// forgetVotes forgets the votes that an answer to the requests of e refutes: those for other pairs, and those for other
// PSNs of its requests. Votes for other PSNs of the requests of mate stay: its lifetime may be forged.
func (m *Map) forgetVotes(e, mate *Entry) {
	e.voted, mate.voted = false, false
	k := m.flowOf(e)
	f := m.open.find(&k)
	k = m.flowOf(mate)
	g := m.open.find(&k)
	if f != nil {
		f.votes.senders, f.byPort = tally{}, ballots{}
		e.voted = f.votes.asked.keepOnly(e.SrcQP)
		m.listOpen(f, e.voted)
	}
	if g != nil {
		g.votes.asked, g.byPort = tally{}, ballots{}
		mate.voted = g.votes.senders.keepOnly(mate.SrcQP)
		m.listOpen(g, mate.voted)
	}
}

// A link is one direction of a connection: a flow and its pair to be.
type link struct {
	key     key
	pair    Entry
	slot    slot // in which the pair is to be placed
	current bool // the packet that is learned from is of this flow, and of the connection
}

// strays reports whether the last packet of a flow was outside the connection of which l is to be
// one direction and back the other: an attacker may have made up the connection since. If no packet
// of the flow is remembered, there was one only if the flow has been answered.
func (m *Map) strays(l, back *link) bool {
	if l.current {
		return false
	}
	for _, s := range [...]slot{besideSlot, datagramSlot} {
		if e := m.findIn(&l.key, s); s != l.slot && e != nil && e.sentLast() {
			return true
		}
	}
	if e := m.find(&l.key); e != nil && e.agrees() {
		return e.SrcQP != l.pair.SrcQP || e.unsure()
	}
	if f := m.open.find(&l.key); f != nil && f.passed {
		return !l.pair.explains(&back.pair, f.op, f.psn)
	}
	return l.pair.answered != 0
}

// connect makes the pairs of both directions, or none, in the slots of the links. It retires pairs that name
// other queue pairs, except given ones.
func (m *Map) connect(forth, back link, list uint32) {
	forth.pair.stray, back.pair.stray = m.strays(&forth, &back), m.strays(&back, &forth)
	forth.pair.kept = list == unsettled && m.keeps()
	back.pair.kept = forth.pair.kept
	for _, l := range [...]*link{&forth, &back} {
		if l.slot != 0 {
			if e := m.findIn(&l.key, l.slot); e != nil {
				m.drop(e)
			}
			m.slots |= l.slot
			continue
		}
		if e := m.find(&l.key); e != nil && e.SrcQP != l.pair.SrcQP && e.From != BasisGiven {
			if e.confirmed != 0 {
				m.stats.NewLifetimes++
			}
			m.retire(e, &l.pair.lifetime)
		}
	}
	a := m.place(&forth, list)
	b := m.place(&back, list)
	if a == b && forth.key != back.key || a != nil && a.id == 0 { // the second evicted the first
		a = nil
	}
	if a == nil || b == nil {
		if e := cmp.Or(a, b); e != nil && e.From == 0 {
			m.pairs.Remove(e.id)
		}
		return
	}
	m.install(a, &forth, list)
	if b != a {
		m.install(b, &back, list)
	}
	if forth.pair.answered != 0 || back.pair.answered != 0 { // without an answer the votes still count
		m.open.remove(&forth.key)
		m.open.remove(&back.key)
	}
}

// place returns the pair of a link's flow in its slot, a new one if there is none.
func (m *Map) place(l *link, list uint32) *Entry {
	named := keyIn(&l.key, l.slot)
	if e := m.find(&named); e != nil {
		return e
	}
	return m.makePair(&named, list)
}

// install sets a pair to the pair of a link. A pair that is already known from the same or better
// evidence stays.
func (m *Map) install(e *Entry, l *link, list uint32) {
	same := e.From != 0 && e.SrcQP == l.pair.SrcQP
	if e.From == BasisGiven || same && l.pair.From != BasisCM && e.From <= l.pair.From {
		return
	}
	if !same {
		switch l.pair.From {
		case BasisCM:
			m.stats.CM++
		case BasisVotes:
			m.stats.Votes++
		default:
			m.stats.Ports++
		}
		m.learned[m.learnedCount] = e.id // one Observe makes one connection
		m.learnedCount++
	}
	e.set(l.pair)
	e.seen = m.clock.ticks
	if list == settled {
		e.confirmed = m.now()
	}
	m.pairs.Renew(e.id, e.list())
}

// makePair returns a new pair in a list. In a full table it evicts another one: see victim. It returns nil if there is
// none.
func (m *Map) makePair(k *key, list uint32) *Entry {
	if m.pairs.Full() {
		victim := m.victim(k, list)
		if victim == 0 {
			m.countOnce(&m.stats.Full)
			return nil
		}
		m.stats.Evicted += m.remove(m.pairs.Value(victim))
	}
	id := m.pairs.Add(k, k.Hash(m.pairs.Seed), list)
	e := m.pairs.Value(id)
	e.id = id
	return e
}

// victim returns the pair of a full table to evict for a new one in a list, 0 if there is none. The first of these is
// evicted:
//
//  1. a pair of a domain that has more pairs, or an unsettled pair of prefixes with more than their share; for a
//     settled pair also a settled one of such prefixes: see [flowtable.Shares.Compare]
//  2. the oldest unsettled pair
//  3. the oldest settled pair if it is idle or, for a settled one, silent
//
// 2 and 3 spare pairs of domains and prefixes that have less than the new one, unless they are idle. So a flood of new
// flows displaces no pair in use, except of its own domain or prefixes.
func (m *Map) victim(k *key, list uint32) uint32 {
	spare := func(at uint32) bool {
		e := m.pairs.Value(at)
		return e.From == BasisGiven || m.pairs.compare(at, k) < 0 && !m.idle(e)
	}
	oldest := m.pairs.Victim(unsettled, looks, spare)
	if oldest == 0 || m.pairs.compare(oldest, k) <= 0 {
		if at := m.pairs.pick(k, m.random, func(at uint32) bool {
			e := m.pairs.Value(at)
			weaker := list == unsettled && e.list() == settled && m.pairs.Key(at).Domain == k.Domain
			return e.From == BasisGiven || weaker
		}); at != 0 {
			return at
		}
	}
	if oldest != 0 {
		return oldest
	}
	if oldest = m.pairs.Victim(settled, looks, spare); oldest == 0 {
		return 0
	}
	if e := m.pairs.Value(oldest); m.idle(e) || list == settled && m.unused(e, silence) {
		return oldest
	}
	return 0
}

// looks is the number of the oldest pairs of a list of which one is evicted. Those that are spared become the newest.
const looks = 8

// remove forgets a pair that is idle or evicted, and that of the other direction unless that is
// given, or in use and confirmed as e is not. It returns the number of forgotten pairs.
func (m *Map) remove(e *Entry) (pairs uint64) {
	mate := m.mate(e)
	if mate != nil && mate != e && mate.From != BasisGiven && (mate.list() == e.list() || m.idle(mate)) {
		m.pairs.Remove(mate.id)
		pairs++
	}
	m.pairs.Remove(e.id) // last, so that the next new pair has its id: see connect
	return pairs + 1
}
