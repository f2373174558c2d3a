package qpmap

import (
	"time"

	"github.com/rocecn/rocecn/bth"
)

// A tally counts the votes for the queue pairs that could be at the other end.
// A vote is a response to a queue pair with the PSN of a request.
type tally struct {
	of   [4]candidate
	lost uint16 // the most votes of one that had to make room for another
}

// stride is how far requests that follow one another may be apart: a READ of 16 MB
// takes so many PSNs, where the path MTU is 1,024.
const stride = 1 << 14

// A candidate is a queue pair with the votes for it. The requests that they
// answer follow one another: who guesses PSNs hits some request now and then,
// but not the ones next to it as well, and what stands far from the others is a
// candidate of its own.
type candidate struct {
	qp      uint32 // 0 none
	psn     uint32 // of the last vote
	at      int32  // its moment
	votes   uint16
	follows bool // a request next to one of those was seen, too
}

// vote counts one. Another for the same PSN, such as one refused again and again,
// is no other. It returns the candidate, nil where there is no room for it.
func (t *tally) vote(qp, psn uint32, follows bool, now int32) *candidate {
	least := &t.of[0]
	for i := range t.of {
		c := &t.of[i]
		if d := distance(c.psn, psn); c.qp == qp && -stride <= d && d <= stride {
			if c.at = now; d != 0 {
				c.psn, c.votes, c.follows = psn, min(c.votes, 1<<15)+1, c.follows || follows
			}
			return c
		}
		if c.votes < least.votes || c.votes == least.votes && !c.follows && least.follows {
			least = c
		}
	}
	if least.follows && !follows {
		return nil
	}
	if least.votes > 1 {
		t.lost = max(t.lost, least.votes)
	}
	*least = candidate{qp: qp, psn: psn, at: now, votes: 1, follows: follows}
	return least
}

// elects tells whether the votes for a candidate decide: there are enough of
// them, of requests that follow one another, and enough more than for any other.
func (t *tally) elects(own *candidate, c *Config) bool {
	if own == nil || !own.follows && c.MinVotes > 1 {
		return false
	}
	runnerUp := t.lost
	for i := range t.of {
		if other := &t.of[i]; other.qp != own.qp {
			runnerUp = max(runnerUp, other.votes)
		}
	}
	return int(own.votes) >= c.MinVotes && int(own.votes) >= c.Ratio*int(runnerUp)
}

// undecided tells whether there would be votes enough for a pair, if they agreed.
func (t *tally) undecided(c *Config) bool {
	for i := range t.of {
		if int(t.of[i].votes) >= c.MinVotes {
			return true
		}
	}
	return false
}

// silence is how long a connection must have said nothing before another life
// of its queue pairs is believed that no DREQ announces. So whoever makes up
// both sides of a connection cannot displace one that is in use.
const silence = time.Second

// observeResponse learns from a response. It is a vote that the flows which used
// its PSN have the queue pair that it goes to as their source.
func (m *Map) observeResponse(o *Observation, k *key) {
	if at := m.find(k); at != 0 {
		e := m.pairs.At(at)
		if e.stray = e.from != Given && !m.confirms(at, o); !e.stray {
			return
		}
	}
	if o.continues() {
		return // a PSN of the READ, but no request's own
	}
	transport, now, long := o.Opcode.Transport(), m.now(), m.clock.answerTime()
	users, n := m.recent.users(k, o.PSN, transport, 0, now, long)
	if n == 0 && o.refuses() { // it names a request that was lost: the one before it was not, and one behind it came
		users, n = m.recent.users(k, (o.PSN-1)&psnMask, transport, 0, now, long)
		if n == 0 {
			users, n = m.recent.users(k, (o.PSN+1)&psnMask, transport, 0, now, long)
		}
	}
	m.users = users
	for _, qp := range users[:n] {
		forth := k.back(qp)
		if m.vote(&forth, k, o, n == 1) {
			return
		}
	}
	if m.cfg.Ports {
		users, n = m.ports.users(k, o.PSN, transport, o.SrcPort, now, long)
		for _, qp := range users[:n] {
			forth := k.back(qp)
			if m.votePort(&forth, k, o) {
				return
			}
		}
	}
}

// confirms tells whether a response to the queue pair of a pair answers the flow
// of the other direction, and records what it says of it.
func (m *Map) confirms(at uint32, o *Observation) bool {
	to := m.mate(at)
	if to == 0 {
		return false
	}
	e, f := m.pairs.At(at), m.pairs.At(to)
	now, long := m.now(), m.clock.answerTime()
	if f.from == Given || !within(long, f.requested, now) || !m.asked(to, o) {
		return false
	}
	if e.questioned() || f.questioned() {
		since := min(e.sinceContest(now), f.sinceContest(now))
		if o.continues() || !m.alone(at, to, o, since) {
			return false // it may as well answer a flow of another connection, or what was sent before
		}
	}
	f.life.answer(o)
	if f.mtu == 0 {
		f.mtu = o.mtu()
	}
	if f.from == CM && f.answered == 0 {
		m.unanswered = 0
	}
	f.contested = false
	f.sure, f.answered, f.weight = true, now, min(f.weight, 1<<15)+1
	m.confirm(to, at, true)
	return true
}

// asked tells whether a response is about requests of a pair's flow: those of its
// life, or one a little beyond that was seen lately.
func (m *Map) asked(at uint32, o *Observation) bool {
	l, t := &m.pairs.At(at).life, o.Opcode.Transport()
	return l.answers(o.PSN, t) || l.ahead(o.PSN, t) && m.recent.has(m.pairs.Key(at), o.PSN, t, m.now(), m.clock.answerTime())
}

// alone tells whether of all flows that used the PSN of a response lately there
// is but one, that of the pair to, and it did so not longer ago than this. The
// response belongs to the pair at.
func (m *Map) alone(at, to uint32, o *Observation, since time.Duration) bool {
	k, t, now := m.pairs.Key(at), o.Opcode.Transport(), m.now()
	users, n := m.recent.users(k, o.PSN, t, 0, now, since)
	if n != 1 || users[0] != m.pairs.Key(to).id {
		return false
	}
	_, n = m.recent.users(k, o.PSN, t, 0, now, m.clock.answerTime())
	return n == 1
}

// vote counts a vote that the flow forth, which used the PSN of the response,
// and the flow back, to which the response belongs, are one connection. With the
// last one needed it makes the pairs, and says so. alone says that no other flow
// used the PSN.
func (m *Map) vote(forth, back *key, o *Observation, alone bool) (decided bool) {
	a, b := m.find(forth), m.find(back)
	if a != 0 && b != 0 && m.pairs.At(a).srcQP == back.id && m.pairs.At(b).srcQP == forth.id {
		return alone && m.goesOn(a, b, o)
	}
	if m.given(a, back.id) { // of a given pair for back there are no votes
		return false
	}
	to := m.openFlow(forth)
	from := m.openFlow(back)
	if to == from { // a host and its only queue pair
		return false
	}
	f, g := m.open.At(to), m.open.At(from)
	if mtu := o.mtu(); mtu != 0 {
		f.mtu = mtu
	}
	follows := m.follows(forth, f, o)
	x, y := f.tally.vote(back.id, o.PSN, follows, m.now()), g.tally.vote(forth.id, o.PSN, follows, m.now())
	if a != 0 && m.pairs.At(a).srcQP != back.id {
		m.question(a, x, o)
	}
	if x == nil || !m.gone(a, back.id, x) || !m.gone(b, forth.id, y) {
		return false
	}
	switch at := m.begun(forth, f, o.PSN); {
	case at == 0:
	case m.named(at) != back.id:
		return false // the requests are those that CM says another queue pair sends
	case (m.answered(a) || m.answered(b)) && int(x.votes) < m.cfg.MinVotes:
		return false // not one answer alone, against a connection that had some
	default:
		m.unanswered = 0
		m.adopt(at, o, x.votes)
		return true
	}
	if at := m.begun(back, g, g.next); at != 0 && m.named(at) != forth.id {
		return false // as CM says of the requests the other way
	}
	if !f.tally.elects(x, &m.cfg) || !g.tally.elects(y, &m.cfg) {
		return false
	}
	m.elect(forth, back, Votes, o, x.votes)
	return true
}

// follows tells whether a request next to that of a response was seen: the one
// before it, or the one behind it, or a READ that ends there.
func (m *Map) follows(forth *key, f *open, o *Observation) bool {
	now, long, t := m.now(), m.clock.answerTime(), o.Opcode.Transport()
	if d := distance(o.PSN, f.next); f.run > 1 && 0 < d && d <= nearby {
		return true
	}
	return m.recent.has(forth, (o.PSN-1)&psnMask, t, now, long) || m.recent.has(forth, (o.PSN+1)&psnMask, t, now, long)
}

// votePort counts a vote of a response that has the UDP source port of the
// request as well, and makes the pairs as vote does. They give way to anything
// that is known for better reasons.
func (m *Map) votePort(forth, back *key, o *Observation) (decided bool) {
	if m.find(forth) != 0 || m.find(back) != 0 {
		return false
	}
	to := m.openFlow(forth)
	from := m.openFlow(back)
	f, g := m.open.At(to), m.open.At(from)
	if to == from {
		return false
	}
	follows := m.follows(forth, f, o)
	x, y := f.byPort.vote(back.id, o.PSN, follows, m.now()), g.byPort.vote(forth.id, o.PSN, follows, m.now())
	if !f.byPort.elects(x, &m.cfg) || !g.byPort.elects(y, &m.cfg) {
		return false
	}
	m.elect(forth, back, Port, o, 0)
	return true
}

// elect makes the pairs that votes decide.
func (m *Map) elect(forth, back *key, from Source, o *Observation, weight uint16) {
	f, g := m.open.At(m.open.get(forth)), m.open.At(m.open.get(back))
	t := o.Opcode.Transport()
	mtu := max(f.mtu, g.mtu)
	to := link{*forth, pair{
		srcQP: back.id, from: from, transport: t, pkey: f.pkey, mtu: mtu, requested: f.requested,
		life: answered(o, m.now()), sure: true, answered: m.now(), weight: weight,
	}}
	other := link{*back, pair{srcQP: forth.id, from: from, transport: t, pkey: g.pkey, mtu: mtu, requested: g.requested}}
	for _, l := range [...]*link{&to, &other} {
		if l.pair.pkey == 0 {
			l.pair.pkey = o.PKey
		}
	}
	m.connect(to, other, settled)
}

// goesOn counts a response to the right queue pair that is about requests out of
// the life of the flow, as after a loss of the capture. When there are enough of
// them, the life goes on there if it had no answer yet, has said nothing for a
// while, or was answered less often than those requests have been since: whoever
// guesses PSNs makes up requests and answers that follow one another now and
// then, but not many.
func (m *Map) goesOn(at, mate uint32, o *Observation) bool {
	k := *m.pairs.Key(at)
	open := m.openFlow(&k)
	f := m.open.At(open)
	follows := m.follows(&k, f, o)
	c := f.tally.vote(o.DestQP, o.PSN, follows, m.now())
	e := m.pairs.At(at)
	e.voted = true
	if e.from == Given || c == nil || !c.follows || int(c.votes) < m.cfg.MinVotes {
		return false
	}
	if e.sure && !e.quiet(m.now()) && c.votes <= min(e.weight, few) {
		return false
	}
	other := m.pairs.At(mate)
	next := m.begun(&k, f, o.PSN)
	if next != 0 && m.named(next) == e.srcQP && (other.answered == 0 || other.quiet(m.now())) {
		m.adopt(next, o, max(e.weight, c.votes)) // the same queue pairs, connected anew
		return true
	}
	e.life, e.weight = answered(o, m.now()), max(e.weight, c.votes)
	e.stray, e.sure, e.contested, e.answered, e.requested = false, true, false, m.now(), m.now()
	other.stray = false
	m.confirm(at, mate, true)
	return true
}

// few answers in a row to requests of the right pair are enough to follow them
// to another part of the PSNs.
const few = 64

// begun returns the slot of the exchange with which the requests of an open flow
// began, as far as this PSN belongs to these; 0 without one that is believed.
// Where somebody makes up exchanges, the last that the flow began with need not
// be the right one: then it is among those that announce a PSN just before.
func (m *Map) begun(k *key, f *open, psn uint32) uint32 {
	if !f.named {
		return 0
	}
	if d := distance(f.start, psn); f.begun && 0 <= d && d <= stride {
		return m.announcement(k, f.start)
	}
	for d := range uint32(late) {
		if at := m.announcement(k, (psn-d)&psnMask); at != 0 {
			return at
		}
	}
	return 0
}

// question notes votes for another queue pair than that of a pair. Where they are
// about requests that the pair's life explains as well, nobody knows whose these
// are until an answer to the pair's own queue pair comes. One vote alone may be
// a guess, unless a CM exchange says the same.
func (m *Map) question(at uint32, c *candidate, o *Observation) {
	e := m.pairs.At(at)
	e.voted = true
	agreed := c != nil && (c.qp == e.rival || c.votes > 1 && c.follows)
	if agreed && !e.contested && e.life.answers(o.PSN, o.Opcode.Transport()) {
		e.contested, e.contest = true, m.now()
	}
}

// answered tells whether a pair, if there is one, has been answered.
func (m *Map) answered(at uint32) bool { return at != 0 && m.pairs.At(at).answered != 0 }

// given tells whether the operator gave a pair that says something else.
func (m *Map) given(at, srcQP uint32) bool {
	return at != 0 && m.pairs.At(at).from == Given && m.pairs.At(at).srcQP != srcQP
}

// gone tells whether a pair, if there is one, may give way to a connection that
// answers show: it says the same, the connection was never answered though it
// might have been, it has said nothing for a while, or it was answered less
// often than the other one has been since.
func (m *Map) gone(at, srcQP uint32, c *candidate) bool {
	if at == 0 {
		return true
	}
	e := m.pairs.At(at)
	answered, weight := e.answered != 0, e.weight
	if mate := m.mate(at); mate != 0 {
		answered = answered || m.pairs.At(mate).answered != 0
		weight = max(weight, m.pairs.At(mate).weight)
	}
	switch {
	case e.srcQP == srcQP, e.from == UD, e.from == Port:
		return true
	case e.transport == bth.TransportUC:
		return e.quiet(m.now())
	default:
		return !answered || e.quiet(m.now()) || c != nil && c.votes > weight
	}
}
