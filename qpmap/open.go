package qpmap

import "github.com/rocecn/rocecn/bth"

// An open flow has no pair yet, or requests that the life of its pair does not
// explain. Votes are counted for both directions of a connection: whose source
// queue pair is a says also who answers to a.
type open struct {
	seen          int64
	requested     int32  // moment of the last request
	next          uint32 // expected after the last requests that followed one another
	run           uint16 // how many those were, less the others since
	pkey, mtu     uint16
	named, begun  bool   // a CM exchange names the flow; its requests began where that says
	start         uint32 // with which PSN, if named
	tally, byPort tally
}

// openFlow returns the slot of the open flow of this key, a new one if need be,
// in the place of the one used longest ago. Making one may move all of the table:
// no pointer to another open flow may be kept meanwhile.
func (m *Map) openFlow(k *key) uint32 {
	at := m.open.get(k)
	switch {
	case at == 0:
		at = m.open.put(k)
	case m.past(m.open.At(at).seen):
		*m.open.At(at) = open{}
		m.open.Renew(at, 0)
	default:
		m.open.Renew(at, 0)
	}
	m.open.At(at).seen = m.clock.ticks
	return at
}

func (m *Map) closeFlow(k *key) {
	if at := m.open.get(k); at != 0 {
		m.open.Remove(at)
	}
}

// follow records a request. Single ones, as someone sends who guesses PSNs, do
// not put an end to a run of others at once.
func (f *open) follow(o *Observation, now int32) {
	least, _ := o.psns(f.mtu)
	end := (o.PSN + least) & psnMask
	d := distance(f.next, o.PSN)
	switch {
	case f.run == 0:
		f.next, f.run = end, 1
	case -nearby <= d && d <= nearby:
		f.run = min(f.run, 1<<16-2) + 1
		if distance(f.next, end) > 0 {
			f.next = end
		}
	default:
		f.run--
	}
	f.pkey, f.requested = o.PKey, now
	if mtu := o.mtu(); mtu != 0 {
		f.mtu = mtu
	}
}

// another tells whether requests that follow one another came lately, and not
// from this PSN on.
func (f *open) another(psn uint32, now int32) bool {
	d := distance(psn, f.next)
	return f.run > 1 && within(silence, f.requested, now) && (d < 0 || d > nearby)
}

// observeRequest learns from a request whose source queue pair is not in it.
func (m *Map) observeRequest(o *Observation, k *key) {
	var mtu uint16
	if at := m.find(k); at != 0 && m.followPair(at, o) {
		e := m.pairs.At(at)
		if !o.asks() && !e.questioned() {
			return // a pair that holds needs few votes
		}
		mtu = e.mtu
	} else {
		mtu = m.followOpen(k, o)
	}
	t, now, long := o.Opcode.Transport(), m.now(), m.clock.answerTime()
	if t == bth.TransportUC {
		return // it has no answers
	}
	m.recent.add(k, o.PSN, t, 0, now, long)
	if least, _ := o.psns(mtu); least > 1 { // a READ, which the next request follows with its last PSN
		m.recent.add(k, (o.PSN+least-1)&psnMask, t, 0, now, long)
	}
	if m.cfg.Ports {
		m.ports.add(k, o.PSN, t, o.SrcPort, now, long)
	}
}

// followOpen follows a flow without a pair, or requests out of its life, and
// returns the path MTU if it is known.
func (m *Map) followOpen(k *key, o *Observation) (mtu uint16) {
	at := m.openFlow(k)
	f := m.open.At(at)
	if named, start, run := m.begins(k, f, o); named != 0 {
		f.named, f.begun, f.start = true, true, start
		if m.believes(k, f, named, run, o) {
			m.adopt(named, nil, 0)
			if at := m.find(k); at != 0 && m.followPair(at, o) {
				return m.pairs.At(at).mtu
			}
			at = m.openFlow(k)
			f = m.open.At(at)
		}
	}
	f.follow(o, m.now())
	return f.mtu
}

// begins returns the slot of the exchange that announces requests of which o is
// one of the first, and with which PSN they begin; slot 0 where there is none.
// In a flood of exchanges they must be in a row, and run is how many were seen. One
// of them, or some that are not next to each other, may be missing: the capture
// loses packets. Who guesses PSNs does not hit several in a row.
func (m *Map) begins(k *key, f *open, o *Observation) (named, start uint32, run uint16) {
	start = o.PSN
	if m.unanswered < flood {
		if d := distance(f.start, start); f.named && 0 < d && d <= late {
			start = f.start
		}
		return m.announcement(k, start), start, 1
	}
	t, now, long := o.Opcode.Transport(), m.now(), m.clock.answerTime()
	missing := false
	for d := range uint32(4 * inARow) {
		start = (o.PSN - d) & psnMask
		if d > 0 && !m.recent.has(k, start, t, now, long) {
			if missing {
				break
			}
			missing = true
			continue
		}
		run, missing = run+1, false
		if named = m.announcement(k, start); named != 0 {
			return named, start, run
		}
		if !f.named {
			break
		}
	}
	return 0, 0, 0
}

// inARow is how many requests in a row that begin where CM says are believed
// against a connection of one of their queue pairs that has been answered.
const inARow = 4

// believes tells whether so many requests in a row that begin where CM says are
// enough to believe the exchange: not against other requests that follow one
// another, and not against a connection of the same flow that has been answered
// and is in use. There the answers must say the same.
func (m *Map) believes(k *key, f *open, named uint32, run uint16, o *Observation) bool {
	t, now := o.Opcode.Transport(), m.now()
	if f.another(f.start, now) || m.recent.has(k, (f.start-1)&psnMask, t, now, m.clock.answerTime()) {
		return false
	}
	at := m.find(k)
	if m.unanswered < flood {
		if at == 0 {
			return true
		}
		e := m.pairs.At(at)
		return e.from != Given && (e.confirmed == 0 || e.answered == 0 && e.quiet(now))
	}
	if m.answered(at) && !m.pairs.At(at).quiet(now) {
		return false
	}
	back := k.back(m.named(named))
	return m.yields(at, run) && m.yields(m.find(&back), run)
}

// flood is how many exchanges in a row contradict pairs in use and are never
// answered when they are taken for made up.
const flood = 16

// yields tells whether a pair, if there is one, gives way to another connection
// that has had so many requests in a row, and no answer, in a flood of exchanges.
func (m *Map) yields(at uint32, run uint16) bool {
	if at == 0 {
		return true
	}
	e := m.pairs.At(at)
	switch {
	case e.from == Given:
		return false
	case e.confirmed == 0:
		return true
	case m.answered(at), m.answered(m.mate(at)):
		return run >= inARow
	default:
		return run > m.requests(at) || e.quiet(m.now())
	}
}

// requests returns how many requests in a row a connection has had at most.
func (m *Map) requests(at uint32) uint16 {
	n := m.pairs.At(at).life.requests
	if mate := m.mate(at); mate != 0 {
		n = max(n, m.pairs.At(mate).life.requests)
	}
	return n
}

// followPair follows a flow that has a pair, and tells whether the request
// belongs to the pair's life.
func (m *Map) followPair(at uint32, o *Observation) bool {
	e := m.pairs.At(at)
	t := o.Opcode.Transport()
	switch {
	case e.from == Given:
		return true
	case !e.life.known && t == e.transport:
		e.life, e.sure = begin(o, e.mtu, m.now()), false // whose requests these are, an answer must tell
	case !e.life.contains(o.PSN, t):
		e.stray = true
		return false
	default:
		if !e.contested && e.rivals(o.PSN) {
			e.contested, e.contest = true, m.now() // only answers can tell
		}
		if e.life.requests == 0 && e.from == CM {
			// They begin where CM says, unless they come from before that.
			e.sure = !m.recent.has(m.pairs.Key(at), (e.life.floor-1)&psnMask, t, m.now(), m.clock.answerTime())
		}
		e.life.take(o, e.mtu, m.now())
	}
	if e.mtu == 0 {
		e.mtu = o.mtu()
	}
	e.stray = false
	m.use(at)
	e.requested = m.now()
	if e.from == Votes || e.from == Port {
		e.pkey = o.PKey
	}
	if e.sure && !e.contested {
		if e.confirmed == 0 {
			m.confirm(at, m.mate(at), false)
		}
		e.confirmed = m.now()
	}
	return true
}
