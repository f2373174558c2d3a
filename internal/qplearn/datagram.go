package qplearn

// observeDatagram learns from a packet with a DETH, which names the source queue pair (UD and RD).
// Many queue pairs may send to one: while a second source has been seen within Idle, the source is
// ambiguous. A datagram to the receiver of a connection that is in use is a stray. Otherwise its pair
// is stored beside that of the connection, which stays: see slot.
func (m *Map) observeDatagram(o *Observation, k *key) {
	inUse := false
	if e := m.find(k); e != nil {
		if e.From == BasisGiven {
			return
		}
		inUse, e.stray = !m.quiet(e), true
	}
	m.strayIn(k, besideSlot)
	named := keyIn(k, datagramSlot)
	e := m.find(&named)
	if inUse || o.SrcQP <= managementQP {
		if e != nil {
			e.stray = true
		}
		return
	}
	if e == nil {
		if e = m.makePair(&named, unsettled); e == nil {
			return
		}
		m.slots |= datagramSlot
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
