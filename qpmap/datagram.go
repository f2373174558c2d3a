package qpmap

import "github.com/rocecn/rocecn/rocev2"

// observeDatagram learns from a packet whose DETH names the source queue pair
// (UD and RD). Many may send to one queue pair: while another has been seen
// within Idle, there is no one source.
func (m *Map) observeDatagram(p *rocev2.Packet, k *key) {
	src := p.BTH.DETH.SrcQP
	at := m.find(k)
	if at == 0 {
		if at = m.makePair(k, unsettled); at == 0 {
			return
		}
		m.stats.UD++
		m.tell(at)
		m.pairs.slots[at].v = pair{srcQP: src, from: UD, transport: p.BTH.Opcode.Transport()}
	}
	e := &m.pairs.slots[at].v
	if e.from != UD {
		return
	}
	if e.srcQP != src {
		e.other, e.otherSeen, e.srcQP = e.srcQP, e.seen, src
	}
	e.seen, e.pkey = m.clock.ticks, p.BTH.PKey
	m.pairs.renew(at, unsettled)
}
