package qpmap

import (
	"cmp"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/rocev2"
)

// A tally counts the votes for the queue pairs that could be at the other end.
type tally struct {
	qps    [4]uint32 // 0 none
	psns   [4]uint32 // of the last vote for each
	counts [4]uint16
	lost   uint16 // the most votes of one that had to make room for another
}

// vote counts one. Another for the same PSN, such as one refused again and again,
// is no other.
func (t *tally) vote(qp, psn uint32) {
	least := 0
	for i := range t.qps {
		if t.qps[i] == qp {
			if t.psns[i] == psn {
				return
			}
			t.psns[i] = psn
			t.counts[i]++
			if t.counts[i] == 1<<15 {
				for i := range t.counts {
					t.counts[i] /= 2
				}
				t.lost /= 2
			}
			return
		}
		if t.counts[i] < t.counts[least] {
			least = i
		}
	}
	t.lost = max(t.lost, t.counts[least])
	t.qps[least], t.psns[least], t.counts[least] = qp, psn, 1
}

// of returns the votes for a queue pair, and the most of any other.
func (t *tally) of(qp uint32) (votes, runnerUp int) {
	runnerUp = int(t.lost)
	for i, n := range t.counts {
		if t.qps[i] == qp {
			votes = int(n)
		} else {
			runnerUp = max(runnerUp, int(n))
		}
	}
	return votes, runnerUp
}

// elects tells whether the votes for a queue pair decide.
func (t *tally) elects(qp uint32, c *Config) bool {
	votes, runnerUp := t.of(qp)
	return votes >= c.MinVotes && votes >= c.Ratio*runnerUp
}

// undecided tells whether there would be votes enough for a pair, if they agreed.
func (t *tally) undecided(c *Config) bool {
	for _, n := range t.counts {
		if int(n) >= c.MinVotes {
			return true
		}
	}
	return false
}

// An open flow has no pair yet, or one that is being questioned. Votes are
// counted for both directions of a connection: whose source queue pair is a says
// also who answers to a.
type open struct {
	sequence  sequence
	transport bth.Transport
	pkey, mtu uint16
	candidate uint32 // slot of a CM exchange that names the flow, to be believed when data follows it
	requested int32  // moment of the last request
	seen      int64
	tally     tally
}

// openFlow returns the open flow of this key, a new one if need be, in the place
// of the one used longest ago.
func (m *Map) openFlow(k *key) *open {
	at := m.open.get(k)
	switch {
	case at == 0:
		if at = m.open.add(k, 0); at == 0 {
			m.open.remove(m.open.lists[0].oldest)
			at = m.open.add(k, 0)
		}
	case m.past(m.open.slots[at].v.seen):
		m.open.slots[at].v = open{}
		m.open.renew(at, 0)
	default:
		m.open.renew(at, 0)
	}
	o := &m.open.slots[at].v
	o.seen = m.clock.ticks
	return o
}

func (m *Map) closeFlow(k *key) {
	if at := m.open.get(k); at != 0 {
		m.open.remove(at)
	}
}

// observeRequest learns from a request whose source queue pair is not in it.
func (m *Map) observeRequest(p *rocev2.Packet, k *key) {
	psn, transport, now := p.BTH.PSN, p.BTH.Opcode.Transport(), m.now()
	if at := m.find(k); at == 0 || !m.followPair(at, p) {
		m.followOpen(k, p)
	} else if !asks(p) {
		return // a pair that holds needs few votes
	}
	if transport != bth.TransportUC { // which has no answers
		m.recent.add(k, psn, transport, now, m.clock.answerTime())
	}
}

// asks tells whether a request wants an answer.
func asks(p *rocev2.Packet) bool {
	switch p.BTH.Opcode.Operation() {
	case bth.OpRDMAReadRequest, bth.OpCmpSwap, bth.OpFetchAdd:
		return true
	}
	return p.BTH.AckReq
}

// followOpen follows a flow without a pair.
func (m *Map) followOpen(k *key, p *rocev2.Packet) {
	o := m.openFlow(k)
	transport := p.BTH.Opcode.Transport()
	if !o.sequence.begun {
		o.transport = transport
	}
	if _, ok := m.announced(o.candidate, k, p.BTH.PSN); ok {
		m.adopt(o.candidate)
		if at := m.find(k); at != 0 {
			m.followPair(at, p)
			return
		}
	}
	if mtu := mtuOf(p); mtu != 0 {
		o.mtu = mtu
	}
	o.pkey, o.requested = p.BTH.PKey, m.now()
	least, most := psns(p, o.mtu)
	if o.sequence.follow(p.BTH.PSN, least, most, o.transport != transport) == restart {
		o.transport, o.tally = transport, tally{}
	}
}

// followPair follows a flow that has a pair, and tells whether it has it still.
func (m *Map) followPair(at uint32, p *rocev2.Packet) bool {
	s := &m.pairs.slots[at]
	e, psn, transport := &s.v, p.BTH.PSN, p.BTH.Opcode.Transport()
	if e.mtu == 0 {
		e.mtu = mtuOf(p)
	}
	least, most := psns(p, e.mtu)
	starts := e.from == CM && !e.sequence.begun && near(e.sequence.next, psn)
	how := e.sequence.follow(psn, least, most, e.transport != transport && e.from != Given)
	if srcQP, ok := m.announced(e.candidate, &s.key, psn); ok && e.from != Given {
		switch {
		case how != ahead:
			k := s.key
			m.adopt(e.candidate)
			at = m.find(&k)
			return at != 0 && m.followPair(at, p)
		case srcQP != e.srcQP:
			e.contested = true // the old life or a new one: only answers can tell
		}
	}
	switch how {
	case astray:
		return true
	case restart:
		if e.from == Given {
			break
		}
		k, sequence := s.key, e.sequence
		m.drop(at)
		m.stats.NewLives++
		o := m.openFlow(&k)
		o.sequence, o.transport = sequence, transport
		return false
	}
	if e.transport == bth.TransportUC && e.sequence.calm == calm {
		e.sequence.doubt, e.sequence.calm = sure, 0
	}
	m.use(at)
	e.requested = m.now()
	if e.from == Votes {
		e.pkey = p.BTH.PKey
	}
	if starts && !e.contested {
		m.confirm(at, m.mate(at))
	} else if e.from == CM && e.confirmed != 0 && how == ahead && !e.contested && e.sequence.doubt == sure {
		e.confirmed = m.now() // it goes on as CM said
	}
	return true
}

// observeResponse learns from a response: k is its own key, with the queue pair
// that is to be found.
func (m *Map) observeResponse(p *rocev2.Packet, k *key) {
	now := m.now()
	at := m.find(k)
	if at != 0 {
		e := &m.pairs.slots[at].v
		forth := k.back(e.srcQP)
		to := m.find(&forth)
		switch {
		case to == 0:
			e.contested = true
		case m.pairs.slots[to].v.srcQP == k.id && m.answers(to, p, now):
			m.confirm(to, at)
			return
		case !m.pairs.slots[to].v.sequence.explains(p.BTH.PSN):
			e.contested = true // nothing that the other side sent asks for it
		}
	}
	switch p.BTH.Opcode.Operation() {
	case bth.OpRDMAReadResponseMiddle, bth.OpRDMAReadResponseLast:
		return // a PSN of the READ, but no request's own
	}
	users, n := m.recent.users(k, p.BTH.PSN, p.BTH.Opcode.Transport(), now, m.clock.answerTime())
	for _, qp := range users[:n] {
		forth := k.back(qp)
		if m.vote(&forth, k, p) {
			return
		}
	}
}

// answers tells whether a response answers a request of the last seconds, and
// notes what it says of the flow.
func (m *Map) answers(at uint32, p *rocev2.Packet, now int32) bool {
	e := &m.pairs.slots[at].v
	if !within(m.clock.answerTime(), e.requested, now) || !e.sequence.covers(p.BTH.PSN) {
		return false
	}
	if e.mtu == 0 {
		e.mtu = mtuOf(p)
	}
	e.sequence.answer(p)
	return true
}

// vote counts a vote that the flow forth, which used the PSN of the response,
// and the flow back, to which the response belongs, are one connection. With the
// last one needed it makes the pairs, and says so.
func (m *Map) vote(forth, back *key, p *rocev2.Packet) (decided bool) {
	a, b := m.find(forth), m.find(back)
	if a != 0 && b != 0 && m.pairs.slots[a].v.srcQP == back.id && m.pairs.slots[b].v.srcQP == forth.id {
		return false // says nothing new
	}
	if !m.question(a, back.id, true) || !m.question(b, forth.id, false) {
		return false
	}
	to, from := m.openFlow(forth), m.openFlow(back)
	to.tally.vote(back.id, p.BTH.PSN)
	from.tally.vote(forth.id, p.BTH.PSN)
	if mtu := mtuOf(p); mtu != 0 {
		to.mtu = mtu
	}
	if !to.tally.elects(back.id, &m.cfg) || !from.tally.elects(forth.id, &m.cfg) {
		return false
	}
	pair := pair{
		srcQP: back.id, pkey: cmp.Or(to.pkey, p.BTH.PKey), mtu: cmp.Or(to.mtu, from.mtu), transport: p.BTH.Opcode.Transport(),
		from: Votes, sequence: to.sequence, requested: to.requested,
	}
	other := pair
	other.srcQP, other.pkey, other.sequence, other.requested = forth.id, cmp.Or(from.pkey, p.BTH.PKey), from.sequence, from.requested
	m.connect(link{*forth, pair}, link{*back, other}, settled)
	return true
}

// question tells whether a vote may speak against a pair: not against a given
// one, nor against that of a flow which another queue pair has just answered.
func (m *Map) question(at, srcQP uint32, answered bool) bool {
	if at == 0 {
		return true
	}
	e := &m.pairs.slots[at].v
	switch {
	case e.srcQP == srcQP:
		return true
	case e.from == Given:
		return false
	case answered && !e.contested && e.confirmed != 0 && within(inUse, e.confirmed, m.now()):
		return false
	}
	e.voted = true
	e.contested = e.contested || e.from == Votes || !answered // CM stands until the votes decide
	return true
}
