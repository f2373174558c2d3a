package qpmap

// observeDatagram learns from a packet whose DETH names the source queue pair
// (UD and RD). Many queue pairs may send to one: while a second source has been
// seen within Idle, the source is ambiguous. A datagram to the receiver of a
// connection that is in use is a stray, and does not replace its pair.
func (m *Map) observeDatagram(o *Observation, k *key) {
	at := m.find(k)
	if at != 0 && m.pairs.At(at).from != UD {
		switch e := m.pairs.At(at); {
		case e.from == Given:
			return
		case !e.quiet(m.now()):
			e.stray = true
			return
		}
		m.drop(at)
		m.stats.NewLives++
		at = 0
	}
	if at == 0 {
		if at = m.makePair(k, unsettled); at == 0 {
			return
		}
		m.stats.UD++
		m.learned[0], m.learnedCount = at, 1
		*m.pairs.At(at) = pair{srcQP: o.SrcQP, from: UD, transport: o.Opcode.Transport()}
	}
	e := m.pairs.At(at)
	if e.srcQP != o.SrcQP {
		e.srcQP, e.otherSeen = o.SrcQP, moment(e.seen)
	}
	m.use(at)
	e.pkey = o.PKey
}
