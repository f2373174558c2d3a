package qpmap

import "github.com/rocecn/rocecn/rocev2"

// observeDatagram learns from a packet whose DETH names the source queue pair
// (UD and RD). Many may send to one queue pair: while another has been seen
// within Idle, there is no one source.
func (m *Map) observeDatagram(p *rocev2.Packet, k *key) {
	src := p.BTH.DETH.SrcQP
	at := m.find(k)
	if at != 0 && m.pairs.slots[at].v.from != UD {
		if e := &m.pairs.slots[at].v; e.from == Given || e.sequence.follow(p.BTH.PSN, 1, 1, true) != restart {
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
		m.pairs.slots[at].v = pair{srcQP: src, from: UD, transport: p.BTH.Opcode.Transport()}
	}
	e := &m.pairs.slots[at].v
	if e.srcQP != src {
		e.other, e.otherSeen, e.srcQP = e.srcQP, moment(e.seen), src
	}
	m.use(at)
	e.pkey, e.sequence.doubt = p.BTH.PKey, sure
}
