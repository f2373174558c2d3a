package qplearn

import (
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/flowtable"
)

// A Connection has the fields of a REQ and of the REP that accepts it.
type Connection struct {
	Requester, Responder End
	PKey, MTU            uint16 // MTU: path MTU in octets, 0 when not known
	Transport            bth.Transport
}

// An End has the values that one end of a [Connection] announces about itself.
type End struct {
	CommID uint32 // communication id
	QP     uint32
	PSN    uint32 // Starting PSN: the first that it will receive
}

// An exchange is a CM REQ, and the REP that answers it once it has come. Its key
// is the requester's address, the responder's, and the requester's
// communication id.
type exchange struct {
	Connection
	answered  bool
	contested bool // two REPs, or two REQs, differ: neither is believed
	seen      int64
}

// Accepted returns the connection that the packet of the last [Map.Learn] accepted, and
// whether it did: a REP, the first one to a REQ that no other REQ contradicts. Only these
// messages count here; data may contradict them, so that [Map.Sender] does not believe
// them.
func (m *Map) Accepted() (Connection, bool) {
	if !m.pending.Holds(m.accepted) {
		return Connection{}, false
	}
	return m.pending.Value(m.accepted).Connection, true
}

// Ended returns the flow that the packet of the last [Map.Learn] ended, and whether there is one:
// its pair is known from CM, and a DREQ, DREP or REJ has the communication ids of its connection.
// The other direction has ended, too.
func (m *Map) Ended() (k flowtable.Key, ok bool) { return m.ended, m.hasEnded }

// exchangeTime is the time for which a communication id stands for one connection: a different REQ
// with the same id is a new connection only after that.
const exchangeTime = time.Minute

// observeCM learns from a packet to queue pair 0 or 1. Messages other than
// those below neither make a pair nor end one.
func (m *Map) observeCM(o *Observation, k *key) {
	switch c := &o.CM; c.Attribute {
	case cm.AttributeREQ:
		m.observeREQ(c, k)
	case cm.AttributeREP:
		m.observeREP(c, k)
	case cm.AttributeDREQ:
		m.observeDREQ(c, k)
	case cm.AttributeDREP:
		m.forget(c.Local, c.Remote, k) // nothing is left to end after a DREQ
	case cm.AttributeREJ:
		if !m.forget(c.Local, c.Remote, k) {
			m.stats.Unmatched++
		}
	}
}

// observeREQ remembers a REQ, which makes a pair only together with its REP. A
// second REQ with the same communication id is a retransmission if it says the
// same. If not, one of the two is forged: neither is believed, and data decides.
func (m *Map) observeREQ(req *Exchange, k *key) {
	if req.QP <= managementQP {
		return
	}
	x := exchange{
		Connection: Connection{
			Requester: End{req.Local, req.QP, req.PSN}, PKey: req.PKey, MTU: req.MTU, Transport: req.Transport,
		},
		seen: m.clock.ticks,
	}
	id := numbered{k.WithQP(0), req.Local}
	switch was, at := m.pending.get(&id); {
	case was == nil:
	case m.clock.ticks-was.seen > int64(exchangeTime):
		m.pending.Remove(at)
	case was.Requester == x.Requester:
		was.seen = m.clock.ticks
		m.pending.Renew(at, 0)
		return
	default:
		m.stats.Conflicts++
		was.contested = was.contested || !was.answered
		return
	}
	*m.pending.Value(m.pending.addValue(&id)) = x
}

// observeREP joins a REP with its REQ: its remote communication id is the REQ's,
// and the addresses are those of the REQ exchanged. Where two REPs to one REQ
// differ, neither is believed.
func (m *Map) observeREP(rep *Exchange, k *key) {
	id := numbered{k.Reversed(0), rep.Remote}
	x, at := m.pending.get(&id)
	if x == nil || m.clock.ticks-x.seen > int64(exchangeTime) {
		m.stats.Unmatched++
		return
	}
	responder := End{rep.Local, rep.QP, rep.PSN}
	if x.Transport == bth.TransportXRC {
		responder.QP = rep.EECN // an XRC REP has the responder's queue pair in this field
	}
	switch {
	case responder.QP <= managementQP || x.contested:
		return
	case !x.answered:
		x.Responder, x.answered, m.accepted = responder, true, at
		m.propose(x, &id)
	case x.Responder != responder:
		m.stats.Conflicts++
		if forth := id.WithQP(x.Responder.QP); m.confirmed(&forth) == nil {
			m.disconnect(&id, x)
			x.contested = true
		}
		return
	}
	x.seen = m.clock.ticks
	m.pending.Renew(at, 0)
}

// confirmed returns the pair of a flow that data has confirmed, nil without one.
func (m *Map) confirmed(k *key) *Entry {
	if e := m.find(k); e != nil && e.confirmed != 0 {
		return e
	}
	return nil
}

// propose makes the pairs of an exchange, unless that contradicts a pair which data has confirmed,
// or requests of an open flow which began with another PSN. Attackers outside the path can forge CM
// messages, so these displace neither. In all cases the first PSN of each direction is remembered,
// so that data which begins there can confirm the exchange.
func (m *Map) propose(x *exchange, id *numbered) {
	forth, back := x.links(id)
	var held bool
	for _, l := range [...]*link{&forth, &back} {
		m.announce(l, x, id)
		if e := m.findIn(&l.key, besideSlot); e != nil && e.lifetime.isNear(&l.pair.lifetime) {
			m.drop(e) // the packets of the two could not be distinguished
		}
		if e := m.find(&l.key); e != nil {
			held = held || e.confirmed != 0 && !(e.From == BasisGiven && e.SrcQP == l.pair.SrcQP)
		} else if f := m.open.find(&l.key); f != nil {
			held = held || f.another(l.pair.lifetime.next, m.now())
		}
	}
	if !held {
		m.connect(forth, back, unsettled)
		return
	}
	m.stats.Conflicts++
	m.unanswered = min(m.unanswered, 1<<16) + 1
	for _, l := range [...]*link{&forth, &back} {
		if e := m.find(&l.key); e != nil {
			m.challenge(e, l)
			other := &back
			if l == other {
				other = &forth
			}
			if mate := m.mate(e); l.pair.SrcQP != e.SrcQP && mate != nil &&
				mate.lifetime.contains(other.pair.lifetime.next, e.Transport) {
				e.shared = true
				m.beginContest(e)
			}
		}
		if f := m.openFlow(&l.key); f != nil {
			f.named, f.begun, f.start = true, false, l.pair.lifetime.next
		}
	}
}

// challenge notes that an exchange names another source queue pair for a flow, if
// its first PSN is that of the pair's lifetime: some hosts begin each connection with
// the same PSN. With any other first PSN its requests would almost certainly be
// outside the lifetime, and so show by themselves.
func (m *Map) challenge(e *Entry, l *link) {
	psn := l.pair.lifetime.next
	if d := distance(e.lifetime.first, psn); l.pair.SrcQP != e.SrcQP && e.lifetime.known && -late <= d && d <= late {
		e.rival, e.rivalPSN = l.pair.SrcQP, psn
		m.beginContest(e)
		e.overlaps = e.lifetime.requests == 0 || distance(e.lifetime.next, psn) <= 0
	}
}

// rivals reports whether a request of the pair's lifetime could also be one of the first requests of
// the rival, which a CM exchange announced. Requests that continue the lifetime in order past the
// rival's first PSN are certainly its own.
func (e *Entry) rivals(psn uint32) bool {
	d, ahead := distance(e.rivalPSN, psn), distance(e.lifetime.next, psn)
	return e.rival != 0 && 0 <= d && d <= late && (e.overlaps || ahead < 0 || d == 0 && ahead != 0)
}

// An announcement is an exchange that has its REP. The table has it once for each
// direction, by flow and first PSN, so that the first requests of a connection
// find their exchange however many others are there.
type announcement struct {
	exchange
	id    numbered // of the exchange
	srcQP uint32
	doubt bool // another exchange announced the same PSN for a different queue pair
}

// announce remembers the announcement of an exchange for one direction.
func (m *Map) announce(l *link, x *exchange, id *numbered) {
	k := numbered{l.key, l.pair.lifetime.next}
	was, at := m.announced.get(&k)
	switch {
	case was == nil:
		at = m.announced.addValue(&k)
	case was.srcQP != l.pair.SrcQP:
		m.doubtOther(was, &k)
		e := m.confirmed(&l.key)
		if m.clock.ticks-was.seen <= int64(exchangeTime) && (e == nil || e.SrcQP != was.srcQP) {
			was.doubt = true
			return
		}
	}
	m.announced.Renew(at, 0)
	*m.announced.Value(at) = announcement{exchange: *x, id: *id, srcQP: l.pair.SrcQP}
}

// doubtOther doubts the announcement of an exchange for the direction opposite to k, if another
// exchange has contradicted it: one connection has ended, or never existed, in both directions.
func (m *Map) doubtOther(x *announcement, k *numbered) {
	forth, back := x.links(&x.id)
	for _, l := range [...]*link{&forth, &back} {
		other := numbered{l.key, l.pair.lifetime.next}
		if a, _ := m.announced.get(&other); a != nil && other != *k && a.id == x.id && a.Responder == x.Responder {
			a.doubt = true
		}
	}
}

// announcement returns the slot of the exchange that announced this PSN as the first of a flow, of which the key has
// this hash; 0 if there is none, or none that is believed.
func (m *Map) announcement(k *key, hash uint64, psn uint32) uint32 {
	named := numbered{*k, psn}
	a, at := m.announced.Find(&named, hashNumber(hash, psn, m.announced.Seed))
	if a == nil || a.doubt || m.past(a.seen) {
		return 0
	}
	return at
}

// named returns the source queue pair of the flow that an announcement is about.
func (m *Map) named(at uint32) uint32 { return m.announced.Value(at).srcQP }

// links returns the links of an exchange in both directions. The first PSN of the requester is in
// the REP, that of the responder in the REQ.
func (x *exchange) links(id *numbered) (forth, back link) {
	common := Entry{PKey: x.PKey, MTU: x.MTU, Transport: x.Transport, From: BasisCM}
	forth = link{key: id.WithQP(x.Responder.QP), pair: common}
	back = link{key: id.Reversed(x.Requester.QP), pair: common}
	forth.pair.SrcQP, forth.pair.lifetime = x.Requester.QP, announce(x.Responder.PSN, x.Transport)
	forth.pair.local, forth.pair.remote = x.Requester.CommID, x.Responder.CommID
	back.pair.SrcQP, back.pair.lifetime = x.Responder.QP, announce(x.Requester.PSN, x.Transport)
	back.pair.local, back.pair.remote = x.Responder.CommID, x.Requester.CommID
	return forth, back
}

// adopt makes the pairs of an exchange that data has confirmed: by requests and, if
// o is not nil, by this many answers, of which o is the last.
func (m *Map) adopt(at uint32, o *Observation, answers uint16) {
	a := m.announced.Value(at)
	forth, back := a.links(&a.id)
	for _, l := range [...]*link{&forth, &back} {
		l.current, l.pair.lifetime.turned = o != nil && l.key == o.Flow, m.now()
		if o == nil || o.Flow.DestQP() != l.pair.SrcQP || o.Flow.Dst != l.key.Src {
			continue
		}
		start := l.pair.lifetime.first
		l.pair.lifetime = answered(o, m.open.find(&l.key), m.now())
		l.pair.lifetime.first, l.pair.lifetime.floor = start, start
		l.pair.sure, l.pair.answered, l.pair.requested, l.pair.weight = true, m.now(), m.now(), answers
	}
	if o == nil {
		m.placeBeside(&forth, &back)
	}
	m.connect(forth, back, settled)
}

// placeBeside makes the pairs of a connection that has no answers go beside those of other connections of its queue
// pairs that data has confirmed: it may be forged. It replaces them if its PSNs could not be distinguished from theirs.
func (m *Map) placeBeside(forth, back *link) {
	links, confirmed := [...]*link{forth, back}, false
	for _, l := range links {
		if e := m.confirmed(&l.key); e != nil && e.From != BasisGiven {
			if e.lifetime.requests > 0 && e.lifetime.isNear(&l.pair.lifetime) {
				return
			}
			confirmed = true
		}
	}
	for _, l := range links {
		e := m.find(&l.key)
		if !confirmed || e == nil {
			continue
		}
		l.slot = besideSlot
		if beside := m.findIn(&l.key, besideSlot); beside != nil && m.isStronger(beside, e) {
			m.promote(beside, m.mate(beside)) // the weaker of the two makes room
		}
	}
}

// disconnect removes the pairs that an exchange made, and its announcements.
func (m *Map) disconnect(id *numbered, x *exchange) {
	forth, back := x.links(id)
	for _, l := range [...]*link{&forth, &back} {
		m.end(&l.key, l.pair.local, l.pair.remote)
		if f := m.open.find(&l.key); f != nil && f.begun && f.start == l.pair.lifetime.next {
			f.votes.forget(l.pair.SrcQP) // of the connection that has ended
			f.byPort.forget(l.pair.SrcQP)
		}
		k := numbered{l.key, l.pair.lifetime.next}
		if a, at := m.announced.get(&k); a != nil && a.Responder == x.Responder {
			m.announced.Remove(at)
		}
	}
}

// end forgets a pair that CM made with these communication ids, and reports
// whether there was one.
func (m *Map) end(k *key, local, remote uint32) bool {
	made := func(e *Entry) bool {
		return e != nil && e.From == BasisCM && e.local == local && e.remote == remote
	}
	e := m.find(k)
	if !made(e) {
		if e = m.findIn(k, besideSlot); !made(e) {
			return false
		}
	}
	m.ended, m.hasEnded = *k, true
	m.pairs.Remove(e.id)
	m.stats.Ended++
	return true
}

// observeDREQ ends the pairs of a connection, if the addresses, both
// communication ids and the queue pair are its own.
func (m *Map) observeDREQ(dreq *Exchange, k *key) {
	forth := k.WithQP(dreq.QP)
	var srcQP uint32
	for _, e := range [...]*Entry{m.findIn(&forth, besideSlot), m.find(&forth)} {
		if e != nil && (e.local == dreq.Local || srcQP == 0) {
			srcQP = e.SrcQP
		}
	}
	back := forth.Reversed(srcQP)
	if !m.end(&forth, dreq.Local, dreq.Remote) {
		m.stats.Unmatched++
		return
	}
	m.end(&back, dreq.Remote, dreq.Local)
	m.forget(dreq.Local, dreq.Remote, k)
}

// forget removes the exchange with these communication ids, local of the side that
// sent the message, and the pairs that it made. Both ids must match, as an
// attacker does not know them; a REQ without its REP has only one.
func (m *Map) forget(local, remote uint32, k *key) bool {
	mine, theirs := numbered{k.WithQP(0), local}, numbered{k.Reversed(0), remote}
	for _, id := range [...]*numbered{&mine, &theirs} {
		x, at := m.pending.get(id)
		if x == nil {
			continue
		}
		other := remote
		if id == &theirs {
			other = local
		}
		if x.answered {
			if x.Responder.CommID != other {
				continue
			}
			m.disconnect(id, x)
		}
		m.pending.Remove(at)
		return true
	}
	return false
}
