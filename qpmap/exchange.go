package qpmap

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/rocev2"
)

// An exchange is a CM REQ, and the REP that answers it once it has come. Its key
// is the requester's address, the responder's, and the requester's
// communication id.
type exchange struct {
	requester, responder end
	pkey, mtu            uint16
	transport            bth.Transport
	answered             bool
	contested            bool // two REPs differ: neither is believed
	seen                 int64
}

// An end is what one side says of itself.
type end struct {
	commID uint32
	qp     uint32
	psn    uint32 // the first PSN that it will receive
}

// observeCM learns from a packet to queue pair 0 or 1. Messages other than
// those below neither make a pair nor end one.
func (m *Map) observeCM(p *rocev2.Packet, k *key) {
	if p.BTH.Opcode != bth.UDSendOnly || !cm.Carried(p.BTH.DestQP, p.BTH.DETH.SrcQP, p.BTH.DETH.QKey, p.Payload) {
		return
	}
	var h cm.Header
	message, err := h.Decode(p.Payload)
	if err != nil {
		return
	}
	switch h.Attribute {
	case cm.AttributeREQ:
		var req cm.REQ
		if _, err := req.Decode(message); err == nil {
			m.observeREQ(&req, k)
		}
	case cm.AttributeREP:
		var rep cm.REP
		if _, err := rep.Decode(message); err == nil {
			m.observeREP(&rep, k)
		}
	case cm.AttributeDREQ:
		var dreq cm.DREQ
		if _, err := dreq.Decode(message); err == nil {
			m.observeDREQ(&dreq, k)
		}
	case cm.AttributeDREP:
		var drep cm.DREP
		if _, err := drep.Decode(message); err == nil {
			m.forget(drep.LocalCommID, drep.RemoteCommID, k) // nothing is left to end after a DREQ
		}
	case cm.AttributeREJ:
		var rej cm.REJ
		if _, err := rej.Decode(message); err == nil && !m.forget(rej.LocalCommID, rej.RemoteCommID, k) {
			m.stats.Unmatched++
		}
	}
}

// observeREQ remembers a REQ. One alone makes no pair. While one waits for its
// REP, another with the same communication id is either a retransmission or not
// believed.
func (m *Map) observeREQ(req *cm.REQ, k *key) {
	transport, known := transportOf(req)
	if !known || req.LocalQPN <= managementQP {
		return
	}
	x := exchange{
		requester: end{commID: req.LocalCommID, qp: req.LocalQPN, psn: req.StartingPSN},
		pkey:      req.PKey, mtu: uint16(req.MTU()), transport: transport, seen: m.clock.ticks,
	}
	id := k.with(req.LocalCommID)
	at := m.pending.get(&id)
	if at != 0 {
		was := &m.pending.slots[at].v
		switch {
		case was.requester == x.requester:
			was.seen = m.clock.ticks
			m.pending.renew(at, 0)
			return
		case !was.answered && m.clock.ticks-was.seen <= int64(m.cfg.Idle):
			m.stats.Conflicts++
			return
		}
		m.pending.remove(at)
	}
	if at = m.pending.add(&id, 0); at == 0 {
		m.pending.remove(m.pending.lists[0].oldest)
		at = m.pending.add(&id, 0)
	}
	m.pending.slots[at].v = x
}

// transportOf returns the transport that a REQ asks for.
func transportOf(req *cm.REQ) (t bth.Transport, known bool) {
	switch {
	case req.TransportType == cm.TransportRC:
		return bth.TransportRC, true
	case req.TransportType == cm.TransportUC:
		return bth.TransportUC, true
	case req.TransportType == cm.TransportExtended && req.ExtendedTransport == cm.ExtendedXRC:
		return bth.TransportXRC, true
	}
	return 0, false
}

// observeREP joins a REP with its REQ: its remote communication id is the REQ's,
// and the addresses are those of the REQ exchanged. Where two REPs to one REQ
// differ, neither is believed.
func (m *Map) observeREP(rep *cm.REP, k *key) {
	id := k.back(rep.RemoteCommID)
	at := m.pending.get(&id)
	if at == 0 || m.clock.ticks-m.pending.slots[at].v.seen > int64(m.cfg.Idle) {
		m.stats.Unmatched++
		return
	}
	x := &m.pending.slots[at].v
	responder := end{commID: rep.LocalCommID, qp: rep.LocalQPN, psn: rep.StartingPSN}
	if x.transport == bth.TransportXRC {
		responder.qp = rep.LocalEECN // where the responder's queue pair of XRC stands
	}
	switch {
	case responder.qp <= managementQP || x.contested:
		return
	case !x.answered:
		x.responder, x.answered = responder, true
		m.propose(at)
	case x.responder != responder:
		m.stats.Conflicts++
		if forth := id.with(x.responder.qp); !m.confirmed(&forth) {
			m.disconnect(&id, x)
			x.contested = true
		}
		return
	}
	x.seen = m.clock.ticks
	m.pending.renew(at, 0)
}

// confirmed tells whether data has confirmed the pair of a flow.
func (m *Map) confirmed(k *key) bool {
	at := m.find(k)
	return at != 0 && m.pairs.slots[at].v.confirmed != 0
}

// propose makes the pairs of an exchange, unless a pair that data confirms, or
// data that began with another PSN, stands against it: then it waits for data to
// follow it.
func (m *Map) propose(at uint32) {
	forth, back := m.links(at)
	var held bool
	for _, l := range [...]*link{&forth, &back} {
		if at := m.find(&l.key); at != 0 {
			e := &m.pairs.slots[at].v
			held = held || e.confirmed != 0 && !(e.from == Given && e.srcQP == l.pair.srcQP)
		} else if at := m.open.get(&l.key); at != 0 {
			o := &m.open.slots[at].v
			held = held || o.sequence.begun && !m.past(o.seen) && !near(l.pair.sequence.next, o.sequence.next)
		}
	}
	if !held {
		m.connect(forth, back, unsettled)
		return
	}
	m.stats.Conflicts++
	for _, l := range [...]*link{&forth, &back} {
		if pair := m.find(&l.key); pair != 0 {
			m.pairs.slots[pair].v.candidate = at
		} else {
			m.openFlow(&l.key).candidate = at
		}
	}
}

// links returns what an exchange says of both directions. The first PSN of the
// requester is in the REP, that of the responder in the REQ.
func (m *Map) links(at uint32) (forth, back link) {
	s := &m.pending.slots[at]
	x := &s.v
	common := pair{pkey: x.pkey, mtu: x.mtu, transport: x.transport, from: CM}
	forth, back = link{s.key.with(x.responder.qp), common}, link{s.key.back(x.requester.qp), common}
	forth.pair.srcQP, forth.pair.sequence = x.requester.qp, begin(x.responder.psn)
	forth.pair.local, forth.pair.remote = x.requester.commID, x.responder.commID
	back.pair.srcQP, back.pair.sequence = x.responder.qp, begin(x.requester.psn)
	back.pair.local, back.pair.remote = x.responder.commID, x.requester.commID
	return forth, back
}

// announced returns the source queue pair that a waiting exchange names for a
// flow, if the flow's requests are to begin at this PSN or just before it.
func (m *Map) announced(at uint32, k *key, psn uint32) (srcQP uint32, ok bool) {
	if at == 0 || !m.pending.slots[at].v.answered || m.pending.slots[at].v.contested {
		return 0, false
	}
	forth, back := m.links(at)
	for _, l := range [...]*link{&forth, &back} {
		if l.key == *k && near(l.pair.sequence.next, psn) {
			return l.pair.srcQP, true
		}
	}
	return 0, false
}

// near tells whether a PSN is the one that CM announced, or one after a few that
// the capture has lost.
func near(start, psn uint32) bool {
	d := distance(start, psn)
	return 0 <= d && d < 64
}

// adopt makes the pairs of an exchange that data follows.
func (m *Map) adopt(at uint32) {
	forth, back := m.links(at)
	m.connect(forth, back, settled)
}

// disconnect takes back the pairs of an exchange, as far as they are its own.
func (m *Map) disconnect(id *key, x *exchange) {
	forth, back := id.with(x.responder.qp), id.back(x.requester.qp)
	m.end(&forth, x.requester.commID, x.responder.commID)
	m.end(&back, x.responder.commID, x.requester.commID)
}

// end forgets a pair that CM made with these communication ids, and tells
// whether there was one.
func (m *Map) end(k *key, local, remote uint32) bool {
	at := m.find(k)
	if at == 0 {
		return false
	}
	e := &m.pairs.slots[at].v
	if e.from != CM || e.local != local || e.remote != remote {
		return false
	}
	m.pairs.remove(at)
	m.stats.Ended++
	return true
}

// observeDREQ ends the pairs of a connection, if the addresses, both
// communication ids and the queue pair are its own.
func (m *Map) observeDREQ(dreq *cm.DREQ, k *key) {
	forth := k.with(dreq.RemoteQPN)
	at := m.find(&forth)
	if at == 0 {
		m.stats.Unmatched++
		return
	}
	back := forth.back(m.pairs.slots[at].v.srcQP)
	if !m.end(&forth, dreq.LocalCommID, dreq.RemoteCommID) {
		m.stats.Unmatched++
		return
	}
	m.end(&back, dreq.RemoteCommID, dreq.LocalCommID)
	m.forget(dreq.LocalCommID, dreq.RemoteCommID, k)
}

// forget takes back the exchange of which a side says that these are its own
// and the other's communication ids, and the pairs that it made. A REQ that is
// not answered yet has but one id.
func (m *Map) forget(local, remote uint32, k *key) bool {
	mine, theirs := k.with(local), k.back(remote)
	for _, id := range [...]*key{&mine, &theirs} {
		at := m.pending.get(id)
		if at == 0 {
			continue
		}
		x := &m.pending.slots[at].v
		other := remote
		if id == &theirs {
			other = local
		}
		if x.answered {
			if x.responder.commID != other {
				continue
			}
			m.disconnect(id, x)
		}
		m.pending.remove(at)
		return true
	}
	return false
}
