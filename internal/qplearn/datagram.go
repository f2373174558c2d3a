package qplearn

// observeDatagram learns from a packet with a DETH, which names the source queue pair (UD and RD).
// Many queue pairs may send to one: while a second source has been seen within Idle, the source is
// ambiguous. A datagram to the receiver of a connection that is in use is a stray, and does not
// replace its pair.
func (m *Map) observeDatagram(o *Observation, k *key) {
	e := m.find(k)
	if e != nil && e.From != BasisUD {
		switch {
		case e.From == BasisGiven:
			return
		case !m.quiet(e):
			e.stray = true
			return
		}
		m.drop(e)
		m.stats.NewLives++
		e = nil
	}
	if e == nil {
		if e = m.makePair(k, unsettled); e == nil {
			return
		}
		m.stats.UD++
		m.learned[0], m.learnedCount = e.id, 1
		e.set(Entry{SrcQP: o.SrcQP, From: BasisUD, Transport: o.Opcode.Transport()})
	}
	switch {
	case e.SrcQP != o.SrcQP:
		e.SrcQP, e.otherSeen = o.SrcQP, moment(e.seen)
	case !within(m.cfg.Idle, e.otherSeen, m.now()):
		e.otherSeen = 0 // in 52 days this moment would seem to be near again
	}
	m.use(e)
	e.stray = false
	e.PKey = o.PKey
}
