package qplearn

import "cmp"

// A slot is a flag in the key of a pair. A flow has up to three pairs: that of its connection without a flag, and
// those in the slots. So a packet that may be forged adds a pair, and removes none.
type slot = uint32

const (
	// datagramSlot has the pair of the flow's datagrams, which is known from their DETH.
	datagramSlot slot = 1 << 25
	// besideSlot has the pair of a second connection: one that is announced and has begun but has no answers, or the
	// previous one, which has been replaced. Each packet belongs to the connection of which the lifetime contains it.
	besideSlot slot = 1 << 26

	allSlots = datagramSlot | besideSlot
)

// keyIn returns the key of a flow's pair in a slot, 0 for that of its connection.
func keyIn(k *key, s slot) key {
	named := *k
	named.QP = named.QP&^allSlots | s
	return named
}

// slotOf returns the slot of a pair.
func (m *Map) slotOf(e *Entry) slot { return m.pairs.Key(e.id).QP & allSlots }

// flowOf returns the flow of a pair.
func (m *Map) flowOf(e *Entry) key { return keyIn(m.pairs.Key(e.id), 0) }

// findIn returns the pair of a flow in a slot, nil if there is none that is not idle. It is short enough to be inlined,
// as there are no pairs in most slots.
func (m *Map) findIn(k *key, s slot) *Entry {
	if m.slots&s != s {
		return nil
	}
	return m.lookUpIn(k, s)
}

func (m *Map) lookUpIn(k *key, s slot) *Entry {
	named := keyIn(k, s)
	if e := m.pairs.find(&named); e != nil && !m.idle(e) {
		return e
	}
	return nil
}

// strayIn records that the flow's last packet does not belong to the pairs in these slots.
func (m *Map) strayIn(k *key, slots slot) {
	if slots &= m.slots; slots != 0 {
		m.recordStray(k, slots)
	}
}

func (m *Map) recordStray(k *key, slots slot) {
	for _, s := range [...]slot{datagramSlot, besideSlot} {
		if slots&s == 0 {
			continue
		}
		if e := m.findIn(k, s); e != nil {
			e.stray = true
		}
	}
}

// retire moves the pair of a flow's connection, and that of the other direction, to besideSlot, as another connection
// takes its place: the packets of its lifetime remain known. It forgets a pair that has no lifetime or was never
// confirmed, and one of which the lifetime begins near that of the other connection, as its packets could not be
// distinguished.
func (m *Map) retire(e *Entry, other *lifetime) {
	mate := m.mate(e)
	if e.confirmed == 0 || e.From != BasisCM || e.lifetime.isNear(other) {
		m.drop(e)
		return
	}
	m.moveBeside(e)
	if mate != nil && mate.id != 0 && mate.From != BasisGiven && m.slotOf(mate) == 0 {
		m.moveBeside(mate)
	}
}

// strengthOf returns the evidence for the connection of a pair, and when it was last used.
func (m *Map) strengthOf(e *Entry) (answers, requests int, seen int64) {
	for _, e := range [...]*Entry{e, m.mate(e)} {
		if e != nil {
			answers, requests, seen = answers+int(e.weight), requests+int(e.lifetime.requests), max(seen, e.seen)
		}
	}
	return answers, requests, seen
}

// isStronger reports whether there is more evidence for the connection of a pair than for that of another one, and it
// has been used since that began.
func (m *Map) isStronger(e, than *Entry) bool {
	answers, requests, seen := m.strengthOf(e)
	otherAnswers, otherRequests, _ := m.strengthOf(than)
	return moment(seen)-than.lifetime.turned >= 0 &&
		cmp.Or(cmp.Compare(answers, otherAnswers), cmp.Compare(requests, otherRequests)) > 0
}

// moveBeside moves a pair to besideSlot. It replaces the pair that is there.
func (m *Map) moveBeside(e *Entry) {
	moved, to := *e, keyIn(m.pairs.Key(e.id), besideSlot)
	if moved.stray = true; e.unsure() {
		moved.lifetime = lifetime{}
	}
	m.pairs.Remove(e.id)
	m.pairs.remove(&to)
	if e := m.makePair(&to, moved.list()); e != nil {
		e.set(moved)
		m.slots |= besideSlot
	}
}

// promote exchanges the pairs in besideSlot and those of the flow's connection, in both directions.
func (m *Map) promote(e, mate *Entry) {
	demoted, n := [2]*Entry{}, 0
	for _, e := range [...]*Entry{e, mate} {
		if e == nil || m.slotOf(e) != besideSlot {
			continue
		}
		k := m.flowOf(e)
		was := m.pairs.find(&k)
		switch {
		case was == nil:
			moved, list := *e, e.list()
			m.pairs.Remove(e.id)
			if e := m.makePair(&k, list); e != nil {
				e.set(moved)
			}
		case was.From != BasisGiven:
			a, b := *was, *e
			a.stray = true
			was.set(b)
			e.set(a)
			m.pairs.Renew(was.id, was.list())
			m.pairs.Renew(e.id, e.list())
			demoted[n], n = e, n+1
		}
	}
	for _, e := range demoted[:n] {
		if e.id != 0 { // it has not been forgotten together with the one before
			m.settleBeside(e)
		}
	}
}

// settleBeside moves the other direction of a pair that has come to besideSlot there, too. It forgets both if their
// packets could not be distinguished from those of the flow's connection.
func (m *Map) settleBeside(e *Entry) {
	k := m.flowOf(e)
	if main := m.pairs.find(&k); main == nil || m.slotOf(e) != besideSlot || main.lifetime.isNear(&e.lifetime) {
		m.drop(e)
		return
	}
	mate := m.mate(e)
	if mate != nil && mate.From != BasisGiven && m.slotOf(mate) == 0 && m.mate(mate) == e {
		m.moveBeside(mate)
	}
}
