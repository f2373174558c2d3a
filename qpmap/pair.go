package qpmap

import (
	"math"
	"time"

	"github.com/rocecn/rocecn/bth"
)

// pair is what the table of pairs holds.
type pair struct {
	seen      int64 // ticks of the last packet that agreed with it
	life      life  // the requests of the flow
	confirmed int32 // moment of the last data that agreed: a request of its life, or an answer; 0 never
	answered  int32 // moment of the last answer; 0 never
	requested int32 // moment of the last request
	otherSeen int32 // UD: moment of the last packet of another source queue pair; 0 never
	srcQP     uint32
	local     uint32 // CM: communication id of the flow's sender
	remote    uint32 // CM: of its receiver
	rival     uint32 // source that a CM exchange has named for the flow since data confirmed srcQP; 0 none
	rivalPSN  uint32 // first PSN of the rival
	contest   int32  // moment since which the requests may be another queue pair's; 0 never
	pkey, mtu uint16
	weight    uint16 // answers seen
	transport bth.Transport
	from      Source
	sure      bool // the requests are srcQP's: they began with the announced PSN, or were answered
	stray     bool // the last request was outside the life
	contested bool // something has spoken for another pair, and no answer for this one since
	overlaps  bool // the life had reached rivalPSN when that was announced
	shared    bool // a CM exchange names another sender, and a first PSN in the life of the other direction
	voted     bool // votes for another pair have been counted
}

// now returns the moment of the last packet.
func (m *Map) now() int32 { return moment(m.clock.ticks) }

// The lists of the table of pairs.
const (
	unsettled = 0 // not confirmed by data
	settled   = 1 // confirmed by data, or given
)

// list returns the list that a pair is in.
func (e *pair) list() uint32 {
	if e.confirmed != 0 {
		return settled
	}
	return unsettled
}

// quiet tells whether no data has confirmed a pair for the time silence.
func (e *pair) quiet(now int32) bool { return e.confirmed == 0 || !within(silence, e.confirmed, now) }

// questioned tells whether there is evidence for another pair of the same flow.
func (e *pair) questioned() bool { return e.contested || e.rival != 0 || e.shared }

// sinceContest returns how long ago there was evidence for another pair.
func (e *pair) sinceContest(now int32) time.Duration {
	if e.contest == 0 {
		return math.MaxInt64
	}
	return time.Duration(uint32(now-e.contest)) << 20
}

func (m *Map) past(ticks int64) bool { return m.clock.ticks-ticks > int64(m.cfg.Idle) }

func (m *Map) idle(e *pair) bool { return e.from != Given && m.past(e.seen) }

// find returns the slot of a pair that is not idle, and forgets one that is.
func (m *Map) find(k *key) uint32 {
	at := m.pairs.get(k)
	if at != 0 && m.idle(m.pairs.At(at)) {
		m.pairs.Remove(at)
		m.stats.Expired++
		return 0
	}
	return at
}

// mate returns the slot of the pair of the other direction.
func (m *Map) mate(at uint32) uint32 {
	k := m.pairs.Key(at)
	back := k.Reversed(m.pairs.At(at).srcQP)
	if mate := m.find(&back); mate != 0 && m.pairs.At(mate).srcQP == k.DestQP() {
		return mate
	}
	return 0
}

// drop forgets a pair and that of the other direction, unless that one is given.
func (m *Map) drop(at uint32) {
	if mate := m.mate(at); mate != 0 && mate != at && m.pairs.At(mate).from != Given {
		m.pairs.Remove(mate)
	}
	m.pairs.Remove(at)
}

// use records that a packet agreed with a pair.
func (m *Map) use(at uint32) {
	e := m.pairs.At(at)
	const step = 1 << 27 // ticks; no need to move an entry for each packet
	if e.seen/step != m.clock.ticks/step {
		m.pairs.Renew(at, e.list())
	}
	e.seen = m.clock.ticks
}

// confirm records that data confirmed the pairs of both directions. An answer also
// refutes the evidence for other pairs, which was forged or is outdated.
func (m *Map) confirm(at, mate uint32, answered bool) {
	for _, at := range [...]uint32{at, mate} {
		if at == 0 {
			continue
		}
		e := m.pairs.At(at)
		if e.confirmed == 0 {
			m.pairs.Renew(at, settled)
		}
		e.confirmed = m.now()
		m.use(at)
		if answered {
			e.rival, e.shared = 0, false
		}
		if e.voted && answered {
			e.voted = false
			if open := m.open.get(m.pairs.Key(at)); open != 0 {
				f := m.open.At(open)
				f.tally, f.byPort = tally{}, tally{}
			}
		}
	}
}

// A link is one direction of a connection: a flow and its pair to be.
type link struct {
	key  key
	pair pair
}

// connect makes the pairs of both directions, or none. It removes pairs that name
// other queue pairs, except given ones.
func (m *Map) connect(forth, back link, list uint32) {
	for _, l := range [...]*link{&forth, &back} {
		if at := m.find(&l.key); at != 0 && m.pairs.At(at).srcQP != l.pair.srcQP && m.pairs.At(at).from != Given {
			if m.pairs.At(at).confirmed != 0 {
				m.stats.NewLives++
			}
			m.drop(at)
		}
	}
	a := m.place(&forth.key, list)
	b := m.place(&back.key, list)
	if a == b && forth.key != back.key { // there was room for one only: the second evicted the first
		a = 0
	}
	if a == 0 || b == 0 {
		if at := max(a, b); at != 0 && m.pairs.At(at).from == 0 {
			m.pairs.Remove(at)
		}
		return
	}
	m.install(a, &forth, list)
	if b != a {
		m.install(b, &back, list)
	}
	if forth.pair.answered != 0 || back.pair.answered != 0 { // without an answer the votes still count
		m.closeFlow(&forth.key)
		m.closeFlow(&back.key)
	}
}

// place returns the slot of a flow's pair, a new one if it has none.
func (m *Map) place(k *key, list uint32) uint32 {
	if at := m.find(k); at != 0 {
		return at
	}
	return m.makePair(k, list)
}

// install writes a pair to its slot. A pair that is known in the same or a better
// way stays as it is.
func (m *Map) install(at uint32, l *link, list uint32) {
	e := m.pairs.At(at)
	same := e.from != 0 && e.srcQP == l.pair.srcQP
	if e.from == Given || same && l.pair.from != CM && e.from <= l.pair.from {
		return
	}
	if !same {
		switch l.pair.from {
		case CM:
			m.stats.CM++
		case Votes:
			m.stats.Votes++
		default:
			m.stats.Ports++
		}
		m.learned[m.learnedCount] = at // one Observe makes one connection
		m.learnedCount++
	}
	*e = l.pair
	e.seen = m.clock.ticks
	if list == settled {
		e.confirmed = m.now()
	}
	m.pairs.Renew(at, list)
}

// makePair returns a new slot in a list. In a full table it evicts the oldest pair
// that no data has confirmed or else, see oldestSettled, one that is not in use; it
// returns 0 if there is none. So a flood of new flows displaces no pair in use.
func (m *Map) makePair(k *key, list uint32) uint32 {
	if at := m.pairs.add(k, list); at != 0 {
		return at
	}
	victim := m.pairs.Oldest(unsettled)
	if victim == 0 {
		victim = m.oldestSettled(list)
	}
	if victim == 0 {
		m.stats.Full++
		return 0
	}
	m.pairs.Remove(victim)
	m.stats.Evicted++
	return m.pairs.add(k, list)
}

// oldestSettled returns the settled pair to evict for a new one in a list: the oldest
// if it is idle or, for a settled one, silent. It skips up to eight given pairs,
// which become the newest.
func (m *Map) oldestSettled(list uint32) uint32 {
	at := m.pairs.Victim(settled, 8, func(at uint32) bool { return m.pairs.At(at).from == Given })
	if at == 0 {
		return 0
	}
	if e := m.pairs.At(at); m.idle(e) || list == settled && m.clock.ticks-e.seen > int64(silence) {
		return at
	}
	return 0
}
