package qplearn

import (
	"cmp"

	"github.com/rocecn/rocecn/bth"
)

// An open flow has no pair yet, or has requests outside the lifetime of its pair. Votes
// are counted in both directions, see ballots: a response from B to queue pair a is a
// vote for a as source of the flow to B, and for the flow's receiver as source of the
// responses to a.
type open struct {
	id, list      uint32 // in the table
	seen          int64
	requested     int32  // moment of the last request
	successive    uint16 // successive requests outside the lifetime of a pair, weighted: see recordSuccessive
	next          uint32 // expected after the last requests that followed one another
	run           uint16 // number of these requests, minus that of the others since
	pkey, mtu     uint16
	passed        bool       // a packet has passed that no pair explained: the last one had
	op            bth.Opcode // this opcode
	psn           uint32     // and this PSN
	named, begun  bool       // a CM exchange names the flow; its requests began with the announced PSN
	start         uint32     // the announced PSN, if named
	votes, byPort ballots
}

const maxRun = 1<<16 - 1

// The lists of the table of open flows.
const (
	noVotes  = 0
	hasVotes = 1
)

// openFlow returns the open flow of this key, nil if there is no room for it. It makes one if
// needed, for which another one may make room: a pointer to that may not be kept across the call.
// openBoth is for two.
func (m *Map) openFlow(k *key) *open { return m.openHashed(k, m.hash(k)) }

// openHashed is openFlow for a key with this hash.
func (m *Map) openHashed(k *key, hash uint64) *open {
	f, id := m.open.Find(k, hash)
	switch {
	case f == nil:
		if m.open.Full() && !m.evictOpen(k) {
			m.countOnce(&m.stats.Unlearned)
			return nil
		}
		id = m.open.Add(k, hash, noVotes)
		f = m.open.Value(id)
		f.id = id
	case m.past(f.seen):
		*f = open{id: id}
		fallthrough
	default:
		m.open.Renew(id, f.list)
	}
	f.seen = m.clock.ticks
	return f
}

// evictOpen makes room in a full table of open flows, and reports whether it did. The first of these makes room:
//
//  1. the flow without votes that was used longest ago, except one of a domain or prefixes that have less than k
//  2. a flow of a domain that has more flows, or of prefixes with more than their share
//  3. a flow with votes that is idle
//  4. now and then a random one
//
// So neither do many flows that take turns evict one another before they have enough votes, nor do flows that never get
// enough keep all others out.
func (m *Map) evictOpen(k *key) bool {
	id := m.open.Oldest(noVotes)
	if id != 0 && m.open.compare(id, k) < 0 {
		id = m.open.Victim(noVotes, looks, func(id uint32) bool { return m.open.compare(id, k) < 0 })
	}
	if id == 0 {
		id = m.open.pick(k, m.random, func(uint32) bool { return false })
	}
	if id == 0 {
		id = cmp.Or(m.open.Oldest(hasVotes), m.open.Oldest(noVotes))
		if n := m.random.Uint64(); !m.past(m.open.Value(id).seen) {
			if id = m.open.Pick(n / waits); n%waits != 0 || m.open.compare(id, k) < 0 {
				return false
			}
			m.countOnce(&m.stats.Unlearned)
		}
	}
	m.open.Remove(id)
	return true
}

// countOnce increments Stats.Unlearned or Stats.Full unless the packet has already been counted in one of them: one
// packet may need room for several flows and pairs.
func (m *Map) countOnce(counter *uint64) {
	if !m.counted {
		m.counted = true
		*counter++
	}
}

// waits is the average number of packets after which a random one of a full table of flows with votes
// makes room for another flow.
const waits = 256

// openBoth returns the open flows of both directions for a vote. It returns nil if there is no room
// for both, and for a queue pair that sends to itself.
func (m *Map) openBoth(forth, back *key) (f, g *open) {
	if f = m.openFlow(forth); f == nil {
		return nil, nil
	}
	list := f.list
	m.listOpen(f, true) // so that it does not make room for the other
	if g = m.openFlow(back); g == nil {
		m.listOpen(f, list == hasVotes)
	}
	if g == nil || f == g { // the same flow, or one that has made room for the other
		return nil, nil
	}
	m.listOpen(g, true)
	return f, g
}

// listOpen puts an open flow into the list of those that have votes, or have none.
func (m *Map) listOpen(f *open, votes bool) {
	if f.list = noVotes; votes {
		f.list = hasVotes
	}
	m.open.Renew(f.id, f.list)
}

// pass records a packet that no pair explained.
func (f *open) pass(op bth.Opcode, psn uint32) { f.passed, f.op, f.psn = true, op, psn }

// follow records a request. A single request at another PSN, as from an attacker that guesses PSNs,
// does not end a run.
func (f *open) follow(o *Observation, now int32) {
	f.pass(o.Opcode, o.PSN)
	least, _ := o.psns(f.mtu)
	end := (o.PSN + least) & psnMask
	d := distance(f.next, o.PSN)
	switch {
	case f.run == 0:
		f.next, f.run = end, 1
	case -nearby <= d && d <= nearby:
		f.run = min(f.run, maxRun-1) + 1
		if distance(f.next, end) > 0 {
			f.next = end
		}
	default:
		f.run--
	}
	f.pkey, f.requested = o.PKey, now
	if mtu := o.Opcode.PathMTU(o.Payload); mtu != 0 {
		f.mtu = mtu
	}
}

// leads reports whether the requests with consecutive PSNs, each of which uses at least one PSN,
// may have continued from this PSN to next.
func (f *open) leads(psn uint32) bool {
	d := distance(psn, f.next)
	return 0 < d && (d <= int32(f.run) || f.run == maxRun && d <= span)
}

// another reports whether recent requests have consecutive PSNs that do not begin at this PSN.
func (f *open) another(psn uint32, now int32) bool {
	d := distance(psn, f.next)
	return f.run > 1 && within(silence, f.requested, now) && (d < 0 || d > nearby)
}

// observeRequest learns from a request that does not carry its source queue pair.
func (m *Map) observeRequest(o *Observation, k *key) {
	hash := m.hash(k)
	e, paired := m.followLifetime(k, hash, o)
	var f *open // with the request, if that is outside the lifetime of the flow's pair
	var mtu uint16
	var succeeds bool
	if e != nil {
		if !o.asks() && !e.questioned() {
			return // a settled pair needs no votes from every request
		}
		mtu = e.MTU
	} else {
		m.strayIn(k, allSlots)
		if f, succeeds, mtu = m.followOpen(k, hash, o); !paired {
			f = nil
		}
	}
	t, now, long := o.Opcode.Transport(), m.now(), m.clock.answerTime()
	if t != bth.TransportUC { // UC has no responses that could vote
		flows, qp := m.recent.hash(k, t, 0), k.DestQP()
		join := min(long/8, m.sinceContest()) // all requests of an entry are from after a contest, or from before it
		neighbour := m.recent.add(flows, qp, o.PSN, now, long, join)
		succeeds = succeeds || neighbour || f != nil && m.usedNextBlock(flows, qp, o.PSN)
		if least, _ := o.psns(mtu); least > 1 { // a READ: the next request has the PSN after its last one
			m.recent.add(flows, qp, (o.PSN+least-1)&psnMask, now, long, join)
		}
		if m.cfg.Ports {
			m.ports.add(m.ports.hash(k, t, o.SrcPort), qp, o.PSN, now, long, join)
		}
	}
	if f != nil {
		f.recordSuccessive(succeeds)
	}
}

// followOpen records a request of a flow without a pair, or outside the lifetime of its pair. It returns the open flow,
// or nil if there is no room or the request begins an announced connection; whether the request succeeds the flow's
// last one of this kind; and the path MTU, 0 if not known.
func (m *Map) followOpen(k *key, hash uint64, o *Observation) (f *open, succeeds bool, mtu uint16) {
	if f = m.openHashed(k, hash); f == nil {
		return nil, false, 0
	}
	if named, start, run := m.begins(k, hash, f, o); named != 0 {
		f.named, f.begun, f.start = true, true, start
		if m.believes(k, f, named, run, o) {
			m.adopt(named, nil, 0)
			if e, _ := m.followLifetime(k, hash, o); e != nil {
				e.lifetime.requests = max(e.lifetime.requests, run) // those before o were seen, too
				return nil, false, e.MTU
			}
			if f = m.openHashed(k, hash); f == nil {
				return nil, false, 0
			}
		}
	}
	// A READ may succeed any request, as the number of its PSNs is not known.
	d := distance(f.psn, o.PSN)
	succeeds = f.passed && -late <= d && d <= late || o.Opcode.Operation() == bth.OpRDMAReadRequest
	f.follow(o, m.now())
	return f, succeeds, f.mtu
}

// successiveWeight is the number of requests with guessed PSNs that outweigh one that may succeed another request.
const successiveWeight = 64

// recordSuccessive records whether a request outside the lifetime of its flow's pair may succeed another such request.
// If two do, they are those of another connection and not guesses.
func (f *open) recordSuccessive(succeeds bool) {
	switch {
	case succeeds:
		f.successive = min(f.successive, 1<<15) + successiveWeight
	case f.successive > 0:
		f.successive--
	}
}

// hasSuccessive reports whether requests outside the lifetime of the flow's pair are those of another connection.
func (f *open) hasSuccessive() bool { return f.successive > successiveWeight }

// begins returns the slot of the announcement with o among its first requests, or 0 if there is
// none, and the first PSN. In a flood of exchanges, most of them forged, several requests in a row
// are needed, as guessed PSNs do not hit several in a row; run is the number of such requests seen.
// The capture may have lost some of them, but not two that are next to each other.
func (m *Map) begins(k *key, hash uint64, f *open, o *Observation) (named, start uint32, run uint16) {
	start = o.PSN
	if m.unanswered < flood {
		if d := distance(f.start, start); f.named && 0 < d && d <= late {
			start = f.start
		}
		named = m.announcement(k, hash, start)
		for d := uint32(0); named == 0 && f.named && d < 4*inARow; d++ { // another exchange may be forged
			start = (o.PSN - d) & psnMask
			named = m.announcement(k, hash, start)
		}
		return named, start, 1
	}
	missing := false
	for d := range uint32(4 * inARow) {
		start = (o.PSN - d) & psnMask
		if d > 0 && !m.used(k, start, o.Opcode.Transport()) {
			if missing {
				break
			}
			missing = true
			continue
		}
		run, missing = run+1, false
		if named = m.announcement(k, hash, start); named != 0 {
			return named, start, run
		}
		if !f.named {
			break
		}
	}
	return 0, 0, 0
}

// inARow is the number of requests in a row, from the announced PSN on, that displace a connection
// of one of their queue pairs that has been answered.
const inARow = 4

// believes reports whether run requests in a row from the announced PSN on are enough to believe
// the exchange. They are not while the flow has other requests with consecutive PSNs, or a
// connection that has been answered and is in use: then only answers can confirm the exchange.
func (m *Map) believes(k *key, f *open, named uint32, run uint16, o *Observation) bool {
	if f.another(f.start, m.now()) || m.used(k, f.start-1, o.Opcode.Transport()) || !m.isDistinct(k, named) {
		return false
	}
	e := m.find(k)
	if m.unanswered < flood {
		return e == nil || e.From != BasisGiven && e.answered == 0 // if it is distinct it goes beside e
	}
	if e.wasAnswered() && !m.quiet(e) {
		return false
	}
	back := k.Reversed(m.named(named))
	return m.yields(e, run) && m.yields(m.find(&back), run)
}

// isDistinct reports whether PSNs distinguish an announced connection from that of its flow k, and for UC, which has no
// answers to show the right one later, also from that of the other direction. If not, it may replace one that is silent
// and began with the same PSN, as some hosts begin each connection with that.
func (m *Map) isDistinct(k *key, named uint32) bool {
	a := m.announced.Value(named)
	forth, back := a.links(&a.id)
	for _, l := range [...]*link{&forth, &back} {
		e := m.confirmed(&l.key)
		if e == nil || e.From == BasisGiven || e.lifetime.requests == 0 || !e.lifetime.isNear(&l.pair.lifetime) ||
			l.key != *k && e.Transport != bth.TransportUC {
			continue
		}
		if first := distance(e.lifetime.first, l.pair.lifetime.next); !m.quiet(e) || first < -late || first > late {
			return false
		}
	}
	return true
}

// flood is the number of exchanges in a row without an answer, contradicting pairs in use, from
// which they count as forged.
const flood = 16

// yields reports whether, in a flood of exchanges, a pair (if there is one) is replaced by another
// connection that has had run requests in a row but no answer.
func (m *Map) yields(e *Entry, run uint16) bool {
	switch {
	case e == nil:
		return true
	case e.From == BasisGiven:
		return false
	case e.confirmed == 0:
		return true
	}
	mate, requests := m.mate(e), e.lifetime.requests
	if e.wasAnswered() || mate.wasAnswered() {
		return run >= inARow
	}
	if mate != nil {
		requests = max(requests, mate.lifetime.requests)
	}
	return run > requests || m.quiet(e)
}

// proven is the number of requests in a lifetime from which a connection takes the place of one that is silent.
const proven = 16

// followLifetime records a request of a flow in the pair of which the lifetime contains it, and returns this pair, or
// nil if there is none. It also reports whether the flow has a pair of its connection.
func (m *Map) followLifetime(k *key, hash uint64, o *Observation) (follows *Entry, paired bool) {
	e := m.findHashed(k, hash)
	if paired = e != nil; paired && m.followPair(e, o) {
		return e, true
	}
	beside := m.findIn(k, besideSlot)
	if beside == nil || !m.followPair(beside, o) {
		return nil, paired
	}
	if e == nil || beside.sure && beside.lifetime.requests >= proven && m.quiet(e) {
		m.promote(beside, m.mate(beside))
		return m.find(k), true
	}
	return beside, true
}

// recordAgreement records that the flow's last packet, a response or not, belongs to the connection of a pair.
func (e *Entry) recordAgreement(answering bool, now int32) {
	if e.stray {
		e.otherSeen = now
	}
	e.stray, e.answering = false, answering
}

// beginsAgain reports whether a request is outside the lifetime of a pair and follows another one that was, in a
// lifetime that is unsure: this may have begun with a forged request.
func (m *Map) beginsAgain(e *Entry, o *Observation) bool {
	if e.lifetime.contains(o.PSN, o.Opcode.Transport()) {
		return false
	}
	k := m.flowOf(e)
	f := m.open.find(&k)
	return f != nil && f.passed && !response(f.op) && distance(f.psn, o.PSN) == 1 &&
		within(m.clock.answerTime(), f.requested, m.now())
}

// followPair records a request of a flow that has a pair, and reports whether it belongs to the
// pair's lifetime.
func (m *Map) followPair(e *Entry, o *Observation) bool {
	t, expected := o.Opcode.Transport(), true
	switch {
	case e.From == BasisGiven:
		return true
	case t == e.Transport && (!e.lifetime.known || e.unsure() && m.beginsAgain(e, o)):
		// An answer must show the sender of these requests. Until then only the sender of responses is known.
		e.lifetime, e.sure = begin(o, e.MTU, m.now()), false
	case !e.lifetime.contains(o.PSN, t):
		e.stray = true
		return false
	default:
		if !e.contested && e.rivals(o.PSN) {
			e.contested = true // only an answer can show the sender of the request
			m.beginContest(e)
		}
		if e.lifetime.requests == 0 && e.From == BasisCM {
			// They begin with the announced PSN, unless the request before it was seen, too.
			k := m.flowOf(e)
			e.sure = !m.used(&k, e.lifetime.floor-1, t)
		}
		expected = e.lifetime.recordRequest(o, e.MTU, m.now())
	}
	if e.MTU == 0 {
		e.MTU = o.Opcode.PathMTU(o.Payload)
	}
	e.recordAgreement(false, m.now())
	m.use(e)
	e.requested = m.now()
	if e.From == BasisVotes || e.From == BasisPort {
		e.PKey = o.PKey
	}
	if e.sure && !e.contested && (expected || e.confirmed == 0) {
		if e.confirmed == 0 {
			m.confirm(e, m.mate(e), false)
		}
		e.confirmed = m.now()
	}
	return true
}
