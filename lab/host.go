package lab

import (
	"fmt"

	"github.com/rocecn/rocecn/lab/sim"
)

// A Host has one port. Notifications and acknowledgements go before data of any priority. Each flow is paced by its own
// rate; of the flows that may send, the one that has waited longest goes first.
type Host struct {
	net   *Network
	index int
	port  *Port
	role  *hostRole
	id    sim.ID
	due   pacing
}

// Host adds a host.
func (n *Network) Host() *Host {
	h := &Host{net: n, index: len(n.hosts)}
	h.id = n.Sim.Add(h)
	n.hosts = append(n.hosts, h)
	return h
}

// String returns "host" and its number.
func (h *Host) String() string { return fmt.Sprintf("host %d", h.index) }

// Number returns the index of the host in the network.
func (h *Host) Number() int { return h.index }

// Port returns the host's end of its link.
func (h *Host) Port() *Port { return h.port }

func (h *Host) attachPort(p *Port) {
	if h.port != nil {
		panic("lab: a host has one link")
	}
	h.port = p
}

// Handle runs an event: a notification takes effect, or is ready to be sent.
func (h *Host) Handle(arg uint32) {
	r := ref(arg)
	k := h.net.pool.packetAt(r)
	h.net.roles.making--
	if int(k.to) == h.index {
		h.role.receiveNotification(h.net.pool.octets(k), k.flow)
		h.net.pool.release(r)
		return
	}
	h.port.enqueuePacket(r, k)
}

// sendLater delays a packet at the host, until it is built or read.
func (h *Host) sendLater(r ref, wait sim.Time) {
	h.net.roles.making++
	h.net.Sim.Schedule(h.net.Sim.Now()+wait, sim.Timer, h.id, uint32(r))
}

func (h *Host) receivePacket(in *Port, r ref, k *packet) {
	n := h.net
	switch k.kind {
	case control:
		n.handlePause(in, k)
	case message:
		h.sendLater(r, n.cfg.SenderDelay)
		return
	case ack, nak:
		h.role.learnPacket(r, k)
		n.flows[k.flow].handleAck(r, k)
	case trimmed:
		n.flows[k.flow].receiveTrimmed(r, k)
	case data:
		n.count.Arrived++
		n.count.ArrivedOctets += uint64(k.octets)
		f := n.flows[k.flow]
		h.role.learnPacket(r, k)
		if k.ce {
			h.handleMark(f, r, k)
		}
		f.receiveData(r, k)
	}
	n.pool.release(r)
}

// fillPort sends data, as the wire is free.
func (h *Host) fillPort(p *Port) {
	if p.paused>>h.net.cfg.DataPriority&1 != 0 {
		return
	}
	if f := h.due.nextFlow(h.net.Sim.Now()); f != nil {
		r, k := f.nextPacket()
		h.role.learnPacket(r, k)
		p.transmitPacket(r, k)
		f.countSent(k)
	}
}

// nextWake returns when the next flow may send; Never if none may.
func (h *Host) nextWake() sim.Time {
	if len(h.due.heap) == 0 {
		return sim.Never
	}
	return h.due.heap[0].at
}

// A turn is an entry of pacing.
type turn struct {
	at    sim.Time // not before that; the flow may have a later time by now
	order uint64   // unless it is the flow's turn, the entry is no longer valid
	flow  *Flow
}

// pacing is a heap, by time, of the flows of a host that have something to send.
type pacing struct {
	heap  []turn
	order uint64
}

func (d *pacing) addFlow(f *Flow, at sim.Time) {
	d.order++
	t := turn{at, d.order, f}
	f.turn, f.turnAt = d.order, at
	d.heap = append(d.heap, t)
	i := len(d.heap) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !t.isBefore(&d.heap[parent]) {
			break
		}
		d.heap[i] = d.heap[parent]
		i = parent
	}
	d.heap[i] = t
}

func (t *turn) isBefore(o *turn) bool { return t.at < o.at || t.at == o.at && t.order < o.order }

// removeFirst removes the first flow.
func (d *pacing) removeFirst() *Flow {
	first := d.heap[0].flow
	last := len(d.heap) - 1
	t := d.heap[last]
	d.heap[last].flow = nil
	d.heap = d.heap[:last]
	if last == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && d.heap[child+1].isBefore(&d.heap[child]) {
			child++
		}
		if !d.heap[child].isBefore(&t) {
			break
		}
		d.heap[i] = d.heap[child]
		i = child
	}
	d.heap[i] = t
	return first
}

// nextFlow removes a flow that may send now; nil if none may.
func (d *pacing) nextFlow(now sim.Time) *Flow {
	for len(d.heap) > 0 && d.heap[0].at <= now {
		order := d.heap[0].order
		f := d.removeFirst()
		if f.turn != order {
			continue // the flow has an earlier entry by now, or had one
		}
		switch at := f.advanceRate(now); {
		case !f.hasData():
			f.waits = false
		case at > now:
			d.addFlow(f, at)
		default:
			return f
		}
	}
	return nil
}
