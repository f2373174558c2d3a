package qplearn

import (
	"cmp"
	"time"

	"github.com/rocecn/rocecn/bth"
)

// Ballots are the votes for the queue pairs that could be the opposite end of a flow. A vote is a
// response with the PSN of a request, and counts once for each of the two flows. The votes of the
// response's flow must not be mixed with the evidence of its own requests: only the responses to
// one queue pair certainly count for the right flow.
type ballots struct {
	senders tally // of its requests
	asked   tally // queue pairs with requests that its responses may answer
}

func (b *ballots) forget(qp uint32) {
	b.senders.forget(qp)
	b.asked.forget(qp)
}

// elected reports whether both candidates of a vote have won: the source of a flow's requests, and
// the flow that the responses to that source answer.
func (m *Map) elected(forth, back *ballots, source, flow *candidate, alone bool) bool {
	return forth.senders.elects(source, &forth.asked, alone, &m.cfg) &&
		back.asked.elects(flow, &back.senders, alone, &m.cfg)
}

func (b *ballots) undecided(c *Config) bool { return b.senders.undecided(c) || b.asked.undecided(c) }

// A tally counts votes.
type tally struct {
	of   [4]candidate
	lost uint16 // the most votes that a queue pair may have which is no candidate, as it was evicted
}

// stride is the largest distance between PSNs of successive requests: a READ of 16 MB uses this
// many PSNs at a path MTU of 1,024 octets.
const stride = 1 << 14

// A candidate is a queue pair with votes for PSNs that follow one another. Votes for a PSN far from
// those are counted as another candidate: an attacker that guesses PSNs hits some request now and
// then, but not its neighbours as well.
type candidate struct {
	qp    uint32 // 0: free
	last  uint32 // PSN of the last vote, and neighbour
	votes uint16
	maybe uint16 // votes that it may have in addition: from before it was evicted, or doubtful ones
}

// neighbour marks a candidate if that of one of the requests was seen, too.
const neighbour = 1 << 24

func (c *candidate) follows() bool { return c.last&neighbour != 0 }

// most returns the most votes that a candidate may have.
func (c *candidate) most() uint16 { return c.votes + c.maybe }

const maxVotes = 1<<15 - 1 // so that most fits

// vote counts a vote and returns its candidate, nil if there is no room for it. It
// does not count the same PSN twice in a row, as of a request that is refused again
// and again. A vote that is not sure counts only against others.
//
// Of more queue pairs than there is room for, each evicts the one with the fewest
// votes, and may have been evicted itself: with no more votes for such PSNs than those
// have that are still there. So no candidate looks better beside the others than it is.
// A vote for a request without neighbours, a guess or the first one of a connection,
// evicts no candidate that has some.
func (t *tally) vote(qp, psn uint32, follows, sure bool) *candidate {
	least, before, near := &t.of[0], t.lost, false
	for i := range t.of {
		c := &t.of[i]
		d := distance(c.last&psnMask, psn)
		if c.qp != 0 && -stride <= d && d <= stride {
			if c.qp == qp {
				if d != 0 {
					c.count(psn, follows, sure)
				}
				return c
			}
			before, near = min(before, c.most()), true
		}
		if c.most() < least.most() || c.most() == least.most() && !c.follows() && least.follows() {
			least = c
		}
	}
	if least.follows() && !follows {
		t.lost = max(t.lost, 1)
		return nil
	}
	t.lost = min(max(t.lost, least.most()), maxVotes)
	*least = candidate{qp: qp}
	if near {
		least.maybe = before
	}
	least.count(psn, follows, sure)
	return least
}

func (c *candidate) count(psn uint32, follows, sure bool) {
	c.last = c.last&neighbour | psn
	if follows {
		c.last |= neighbour
	}
	if sure {
		c.votes = min(c.votes+1, maxVotes)
	} else {
		c.maybe = min(c.maybe+1, maxVotes)
	}
}

// forget removes the votes for a queue pair.
func (t *tally) forget(qp uint32) {
	for i := range t.of {
		if t.of[i].qp == qp {
			t.of[i] = candidate{}
		}
	}
}

// keepOnly removes all votes except those for a queue pair, and reports whether it has some.
func (t *tally) keepOnly(qp uint32) (some bool) {
	t.lost = 0
	for i := range t.of {
		if c := &t.of[i]; c.qp != qp {
			*c = candidate{}
		} else {
			some = true
		}
	}
	return some
}

// elects reports whether a candidate has won. For requests with consecutive PSNs it needs Ratio
// times the votes that any other may have, in this tally and together with the other tally of the
// same ballots. It needs MinVotes in this tally, or in both together if the last vote was only for
// it: otherwise the votes of the same response for others are still to come.
func (t *tally) elects(own *candidate, other *tally, alone bool, c *Config) bool {
	if own == nil || !own.follows() && c.MinVotes > 1 {
		return false
	}
	_, rivals := t.result(own.qp)
	more, others := other.result(own.qp)
	votes, needed := int(own.votes), c.MinVotes
	if alone {
		needed -= more
	}
	return votes >= max(needed, c.Ratio*rivals) && votes+more >= c.Ratio*(rivals+others)
}

// result returns the number of votes of a queue pair, and the largest number that any other may
// have.
func (t *tally) result(qp uint32) (votes, rivals int) {
	rivals = int(t.lost)
	for i := range t.of {
		if c := &t.of[i]; c.qp == qp {
			votes += int(c.votes)
		} else {
			rivals = max(rivals, int(c.most()))
		}
	}
	return votes, rivals
}

// undecided reports whether some candidate may have MinVotes votes. Since there is no pair all the
// same, there is more than one.
func (t *tally) undecided(c *Config) bool {
	for i := range t.of {
		if int(t.of[i].most()) >= c.MinVotes {
			return true
		}
	}
	return false
}

// silence is the time for which a connection must be silent before a new lifetime of its queue pairs is
// believed without a DREQ. So an attacker that forges both directions of a connection cannot
// displace one in use.
const silence = time.Second

// observeResponse learns from a response. It is a vote for its destination queue pair
// as the source of the flows that have just used its PSN.
func (m *Map) observeResponse(o *Observation, k *key) {
	if e := m.find(k); e != nil {
		if e.From == BasisGiven || m.confirms(e, o) {
			e.recordAgreement(true, m.now())
			return
		}
		e.stray = true
	}
	if e := m.findIn(k, besideSlot); e != nil && m.confirms(e, o) {
		e.recordAgreement(true, m.now())
		m.promote(e, m.mate(e)) // it has been answered
		return
	}
	m.strayIn(k, allSlots)
	if f := m.openFlow(k); f != nil {
		f.pass(o.Opcode, o.PSN)
	}
	if o.continues() {
		return // its PSN is within the READ's range, but is not the READ's own
	}
	transport, now, long := o.Opcode.Transport(), m.now(), m.clock.answerTime()
	users, n, all := m.recent.users(k, o.PSN, transport, 0, now, long)
	if n == 0 && all && o.refuses() { // its PSN is that of a lost request: one next to it was seen
		users, n, all = m.recent.users(k, (o.PSN-1)&psnMask, transport, 0, now, long)
		if n == 0 && all {
			users, n, all = m.recent.users(k, (o.PSN+1)&psnMask, transport, 0, now, long)
		}
	}
	if all {
		m.users = users
		for _, qp := range users[:n] {
			forth := k.Reversed(qp)
			if m.vote(&forth, k, o, n == 1) {
				return
			}
		}
	}
	if m.cfg.Ports {
		m.observePort(o, k)
	}
}

// observePort learns from a response that has the UDP source port of some of the flows that used its
// PSN. Where all of them have that port, its votes are the same as without it.
func (m *Map) observePort(o *Observation, k *key) {
	same, n, all := m.ports.users(k, o.PSN, o.Opcode.Transport(), o.SrcPort, m.now(), m.clock.answerTime())
	if !all {
		return
	}
	for _, qp := range same[:n] {
		forth := k.Reversed(qp)
		if m.votePort(&forth, k, o) {
			return
		}
	}
}

// confirms reports whether a response to a pair's receiver answers the flow of the other direction,
// and if so records that.
func (m *Map) confirms(e *Entry, o *Observation) bool {
	f := m.mate(e)
	now, long := m.now(), m.clock.answerTime()
	if f == nil || f.From == BasisGiven || !within(long, f.requested, now) || !m.asked(f, o) {
		return false
	}
	if e.questioned() || f.questioned() {
		since := min(e.sinceContest(now), f.sinceContest(now))
		if o.continues() || !m.alone(e, f, o, since) {
			return false // it may answer another connection, or a request from before the contest
		}
	}
	if first := f.lifetime.first; f.unsure() && o.PSN != first && !f.lifetime.seen(distance(f.lifetime.next, o.PSN)) {
		// the READ that it began with may be forged: see asked
		k := m.flowOf(f)
		open := m.open.find(&k)
		f.lifetime = answered(o, open, now)
		f.lifetime.first, f.sure = first, true
		f.stray = f.stray && (open == nil || !open.passed || !f.explains(e, open.op, open.psn))
	} else {
		f.lifetime.answer(o)
	}
	if f.MTU == 0 {
		f.MTU = o.Opcode.PathMTU(o.Payload)
	}
	if f.From == BasisCM && f.answered == 0 {
		m.unanswered = 0
		e.voted, f.voted = true, true // the votes may be from before the connection: confirm forgets them
	}
	f.contested = false
	f.sure, f.answered, f.weight = true, now, min(f.weight, 1<<15)+1
	m.confirm(f, e, true)
	return true
}

// asked reports whether a response answers a request of a pair's flow: one of its lifetime, or one
// slightly after it that was seen recently. A lifetime that is unsure may have begun with a forged READ
// of millions of PSNs: of its PSNs only those count that were seen.
func (m *Map) asked(e *Entry, o *Observation) bool {
	t := o.Opcode.Transport()
	if e.lifetime.answers(o.PSN, t) && !e.unsure() {
		return true
	}
	if !(e.lifetime.spans(o.PSN, t) || e.lifetime.ahead(o.PSN, t)) {
		return false
	}
	k := m.flowOf(e)
	return m.used(&k, o.PSN, t)
}

// alone reports whether the flow of the pair to is the only one that used the PSN of a response
// recently, and did so at most since ago. e is the pair that the response belongs to.
func (m *Map) alone(e, to *Entry, o *Observation, since time.Duration) bool {
	k, t, now := &o.Flow, o.Opcode.Transport(), m.now()
	users, n, _ := m.recent.users(k, o.PSN, t, 0, now, since)
	if n != 1 || users[0] != m.pairs.Key(to.id).DestQP() {
		return false
	}
	_, n, all := m.recent.users(k, o.PSN, t, 0, now, m.clock.answerTime())
	return n == 1 && all
}

// vote counts a vote that forth, a flow which used the PSN of the response, and back,
// the flow that the response belongs to, are the two directions of one connection. If
// that decides the election it makes the pairs, and returns true. alone says that no
// other flow used the PSN.
func (m *Map) vote(forth, back *key, o *Observation, alone bool) (decided bool) {
	a, b := m.find(forth), m.find(back)
	srcQP, receiver := back.DestQP(), forth.DestQP()
	known := a != nil && b != nil && a.SrcQP == srcQP && b.SrcQP == receiver
	if known && alone {
		return m.goesOn(a, b, o)
	}
	if a != nil && a.From == BasisGiven && a.SrcQP != srcQP { // no votes replace a pair given by the operator
		return false
	}
	f, g := m.openBoth(forth, back)
	if f == nil {
		return false
	}
	if mtu := o.Opcode.PathMTU(o.Payload); mtu != 0 {
		f.mtu = mtu
	}
	follows := m.follows(forth, f, o)
	x := f.votes.senders.vote(srcQP, o.PSN, follows, !known)
	y := g.votes.asked.vote(receiver, o.PSN, follows, !known)
	if known { // another may have been asked: this goes on nowhere
		a.voted, b.voted = true, true
		return false
	}
	if a != nil && a.SrcQP != srcQP {
		m.question(a, x, o)
	}
	if x == nil || !m.gone(a, srcQP, x) || !m.gone(b, receiver, y) {
		return false
	}
	switch at := m.begun(forth, f, o.PSN); {
	case at == 0:
	case m.named(at) != srcQP:
		return false // CM says that another queue pair sends these requests
	case (a.wasAnswered() || b.wasAnswered()) && int(x.votes) < m.cfg.MinVotes:
		return false // a single answer does not displace a connection that was answered
	default:
		m.unanswered = 0
		m.adopt(at, o, x.votes)
		return true
	}
	if at := m.begun(back, g, g.next); at != 0 && m.named(at) != receiver {
		return false // CM says so of the requests of the other direction
	}
	if !m.elected(&f.votes, &g.votes, x, y, alone) {
		return false
	}
	m.elect(forth, back, BasisVotes, o, x.votes)
	return true
}

// follows reports whether a neighbour of a response's request was seen: the request immediately
// before or after it, or a READ that ends there.
func (m *Map) follows(forth *key, f *open, o *Observation) bool {
	t := o.Opcode.Transport()
	if d := distance(o.PSN, f.next); f.run > 1 && 0 < d && d <= nearby {
		return true
	}
	return m.used(forth, o.PSN-1, t) || m.used(forth, o.PSN+1, t)
}

// votePort counts a vote of a response that has also the UDP source port of the request, and makes
// the pairs as vote does. Any better evidence replaces them. Flows that have a pair make none, but
// their votes count, because their candidate is in doubt.
func (m *Map) votePort(forth, back *key, o *Observation) (decided bool) {
	f, g := m.openBoth(forth, back)
	if f == nil {
		return false
	}
	follows := m.follows(forth, f, o)
	x := f.byPort.senders.vote(back.DestQP(), o.PSN, follows, true)
	y := g.byPort.asked.vote(forth.DestQP(), o.PSN, follows, true)
	if m.find(forth) != nil || m.find(back) != nil {
		return false
	}
	if !m.elected(&f.byPort, &g.byPort, x, y, false) {
		return false
	}
	m.elect(forth, back, BasisPort, o, 0)
	return true
}

// elect makes the pairs of a decided election.
func (m *Map) elect(forth, back *key, from Basis, o *Observation, weight uint16) {
	f, g := m.open.find(forth), m.open.find(back)
	t := o.Opcode.Transport()
	mtu := max(f.mtu, g.mtu)
	to := link{key: *forth, pair: Entry{
		SrcQP: back.DestQP(), From: from, Transport: t, PKey: cmp.Or(f.pkey, o.PKey), MTU: mtu, requested: f.requested,
		lifetime: answered(o, f, m.now()), sure: true, answered: m.now(), weight: weight,
	}}
	other := link{key: *back, pair: Entry{
		SrcQP: forth.DestQP(), From: from, Transport: t, PKey: cmp.Or(g.pkey, o.PKey), MTU: mtu,
	}, current: true}
	m.connect(to, other, settled)
}

// goesOn counts a response to the pair's own queue pair about requests outside the lifetime of the
// flow, as after a gap in the capture. With enough of these the lifetime continues there, if it had no
// answer yet, has been silent, or was answered less often than those requests have been since: an
// attacker that forges requests and answers with guessed PSNs gets a few that follow one another,
// but not many. As in an election, no other pair of either direction may have nearly as many: the
// pair may be forged, and the answers may belong to another connection that uses the same PSNs.
func (m *Map) goesOn(e, other *Entry, o *Observation) bool {
	k, back := m.flowOf(e), m.flowOf(other)
	f, g := m.openBoth(&k, &back)
	if f == nil {
		return false
	}
	follows := m.follows(&k, f, o)
	c := f.votes.senders.vote(back.DestQP(), o.PSN, follows, true)
	d := g.votes.asked.vote(k.DestQP(), o.PSN, follows, true)
	e.voted, other.voted = true, true
	if e.From == BasisGiven || !m.elected(&f.votes, &g.votes, c, d, true) {
		return false
	}
	if e.sure && !e.silent(m.now()) && c.votes <= min(e.weight, few) {
		return false
	}
	next := m.begun(&k, f, o.PSN)
	if next != 0 && m.named(next) != e.SrcQP {
		return false // CM says that another queue pair sends these requests
	}
	if next != 0 && (other.answered == 0 || other.silent(m.now())) {
		m.adopt(next, o, max(e.weight, c.votes)) // the same queue pairs, connected again
		return true
	}
	unsure := e.unsure()
	e.lifetime, e.weight = answered(o, f, m.now()), max(e.weight, c.votes)
	if e.stray {
		e.stray = !f.passed || !e.explains(other, f.op, f.psn)
	} else {
		e.stray = unsure // the last packet was of the lifetime before
	}
	e.sure, e.contested, e.answered, e.requested = true, false, m.now(), m.now()
	other.stray = false
	m.confirm(e, other, true)
	return true
}

// few is a number of votes: more than these are always enough for goesOn, for any number of earlier
// answers in the lifetime.
const few = 64

// begun returns the slot of the announcement that the requests of an open flow up to
// this PSN began with; 0 if there is none, or none that is believed. If an attacker
// forges exchanges, the last one that the flow seemed to begin with may be forged: then
// the right one is among those that announce a PSN just before this one.
func (m *Map) begun(k *key, f *open, psn uint32) uint32 {
	if !f.named {
		return 0
	}
	hash := m.hash(k)
	if d := distance(f.start, psn); f.begun && 0 <= d && d <= stride {
		return m.announcement(k, hash, f.start)
	}
	for d := range uint32(late) {
		if at := m.announcement(k, hash, (psn-d)&psnMask); at != 0 {
			return at
		}
	}
	return 0
}

// question records a vote for another queue pair than a pair's. If the vote is about
// requests of the pair's lifetime, the pair is contested until an answer to its own queue
// pair comes. A single vote may be a guess, and counts only if a CM exchange agrees.
func (m *Map) question(e *Entry, c *candidate, o *Observation) {
	e.voted = true
	agreed := c != nil && (c.qp == e.rival || c.votes > 1 && c.follows())
	if agreed && !e.contested && e.lifetime.spans(o.PSN, o.Opcode.Transport()) {
		e.contested = true
		m.beginContest(e)
	}
}

// wasAnswered reports whether a pair, if there is one, has been answered.
func (e *Entry) wasAnswered() bool { return e != nil && e.answered != 0 }

// gone reports whether a pair, if there is one, may be replaced by a connection that has answers:
// the pair has the same source or is weak evidence (Port), its connection was never answered
// although its transport has answers, is silent, or was answered less often than the new one has
// been since.
func (m *Map) gone(e *Entry, srcQP uint32, c *candidate) bool {
	if e == nil {
		return true
	}
	answered, weight := e.answered != 0, e.weight
	if mate := m.mate(e); mate != nil {
		answered, weight = answered || mate.answered != 0, max(weight, mate.weight)
	}
	switch {
	case e.SrcQP == srcQP, e.From == BasisPort:
		return true
	case e.Transport == bth.TransportUC:
		return m.quiet(e)
	default:
		return !answered || m.quiet(e) || c != nil && c.votes > weight
	}
}
