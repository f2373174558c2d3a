package lab

import (
	"fmt"
	"math/bits"

	"github.com/rocecn/rocecn/lab/sim"
)

// A Port is one end of a link: its queues and the wire that leaves from it. Fields that the same events use are next to
// each other, because in a large network each event reads another port.
type Port struct {
	net    *Network
	peer   *Port
	wire   flights
	id     sim.ID
	number int32 // index in the network

	owner place
	tap   func(frame []byte) // receives the frames that arrive; nil for none
	next  int32              // the index of the peer's owner among all nodes
	index int32              // index at its owner
	in    account

	rate  sim.Rate
	whole sim.Time // delay, and the time until the queue of the switch there
	busy  sim.Time // end of the frame that is being sent
	sent  uint64   // octets on the wire, gaps included
	wake  sim.Alarm

	queues [pfcQueue + 1]queue
	ready  uint16 // queues that are not empty
	paused uint16 // queues that may not send
	level  uint8
	red    bool       // whether its data queue has RED
	core   bool       // both ends are nodes of the WAN
	drops  bool       // until the pause ends
	most   int64      // the most octets in the data queue
	draws  sim.Stream // of RED
	meter  *Meter

	met    uint64   // number of packets marked or notified by RED
	delay  sim.Time // of the link, from this end
	direct int      // PFC frames that travel
	ends   [8]sim.Time
	quiet  sim.Time

	headroom int64     // the most octets of headroom that packets from the neighbour have needed
	refresh  sim.Alarm // of the pause of the neighbour
	watch    sim.Alarm // of the watchdog
	seen     []byte    // the frame of tap
}

// String returns the nodes from which and to which the port sends.
func (p *Port) String() string { return fmt.Sprintf("%v to %v", p.owner, p.peer.owner) }

// pfcQueue is the queue of PFC frames: before all priorities, and never paused.
const pfcQueue = 8

// The events of a port. Those from portDirect on are the arrival of a PFC frame at
// its peer: the number of the packet is added.
const (
	portWake = iota
	portWire
	portWatch
	portDirect
)

// Meter starts to measure the data queue.
func (p *Port) Meter() *Meter {
	p.meter = &Meter{since: p.net.Sim.Now(), depth: uint64(p.dataQueue().octets)}
	return p.meter
}

// Stop ends the measurement that Meter started.
func (p *Port) Stop() {
	p.meter.stop(p.net.Sim.Now())
	p.meter = nil
}

// Sent returns the number of octets that have been sent on the wire, gaps included.
func (p *Port) Sent() uint64 { return p.sent }

// Most returns the most octets that the data queue ever had.
func (p *Port) Most() int64 { return p.most }

// Congested returns the number of packets of data that experienced congestion by RED here.
func (p *Port) Congested() uint64 { return p.met }

// Last reports whether the link leads to a host.
func (p *Port) Last() bool {
	_, host := p.peer.owner.(*Host)
	return host
}

// Uplink reports whether the link leads from a switch with hosts to another switch.
func (p *Port) Uplink() bool {
	s, ok := p.owner.(*Switch)
	return ok && s.hasHost() && !p.Last()
}

// Paused returns the total time for which the data class was paused.
func (p *Port) Paused() sim.Time {
	if i := p.net.cfg.DataPriority; p.paused>>i&1 != 0 {
		return p.quiet - max(p.ends[i]-p.net.Sim.Now(), 0)
	}
	return p.quiet
}

// Rate returns the rate of the link.
func (p *Port) Rate() sim.Rate { return p.rate }

func (p *Port) dataQueue() *queue { return &p.queues[p.net.cfg.DataPriority] }

// Handle runs an event.
func (p *Port) Handle(arg uint32) {
	switch arg {
	case portWake:
		if p.wake.Rings(&p.net.Sim) {
			p.serveQueues()
		}
	case portWire:
		r := p.wire.pop()
		if p.wire.n > 0 {
			f := p.wire.first()
			p.net.Sim.AtOrder(f.at, f.order, p.id, portWire)
		}
		p.deliverPacket(r)
	case portWatch:
		if p.watch.Rings(&p.net.Sim) {
			p.handleStorm()
		}
	default:
		p.direct--
		p.deliverPacket(ref(arg - portDirect))
	}
}

func (p *Port) deliverPacket(r ref) {
	k := p.net.pool.packetAt(r)
	p.net.recordPacket(p.peer, k)
	if p.peer.tap != nil {
		p.peer.passToTap(r, k)
	}
	p.peer.owner.receivePacket(p.peer, r, k)
}

// enqueuePacket puts a packet into the queue of its priority.
func (p *Port) enqueuePacket(r ref, k *packet) {
	i := int(k.prio)
	if k.kind == control {
		i = pfcQueue
	}
	q := &p.queues[i]
	q.push(&p.net.pool, r, k)
	p.ready |= 1 << i
	if i == int(p.net.cfg.DataPriority) {
		p.depthChanged(q)
	}
	p.serveQueues()
}

func (p *Port) depthChanged(q *queue) {
	p.most = max(p.most, q.octets)
	if s, ok := p.owner.(*Switch); ok && s.role.pauser != nil {
		s.updateLevel(p, q.octets)
	}
	if p.meter != nil {
		p.meter.advanceTo(p.net.Sim.Now(), q.octets)
	}
}

// serveQueues sends a packet if the wire is free, and sets the time of the next event.
func (p *Port) serveQueues() {
	now := p.net.Sim.Now()
	if p.paused != 0 {
		p.expirePauses(now)
	}
	if p.busy <= now {
		if can := p.ready &^ p.paused; can != 0 {
			i := bits.Len16(can) - 1
			r, k := p.queues[i].pop(&p.net.pool)
			if p.queues[i].head == 0 {
				p.ready &^= 1 << i
			}
			if i == int(p.net.cfg.DataPriority) {
				p.depthChanged(&p.queues[i])
			}
			if s, ok := p.owner.(*Switch); ok {
				s.handleDeparture(p, r, k)
			}
			p.transmitPacket(r, k)
		} else {
			p.owner.fillPort(p)
		}
	}
	p.armTimer()
}

// transmitPacket sends a packet on the wire, which is free.
func (p *Port) transmitPacket(r ref, k *packet) {
	now := p.net.Sim.Now()
	if p.busy > now || k.kind != control && p.paused>>k.prio&1 != 0 {
		p.net.count.Untimely++
	}
	octets := int64(k.octets) + gap
	p.busy = now + p.rate.Time(octets)
	p.sent += uint64(octets)
	if k.kind == control { // the MAC reads it, before the pipeline
		p.direct++
		p.net.Sim.Schedule(p.busy+p.delay+p.net.cfg.PauseDelay, sim.Arrival, p.id, portDirect+uint32(r))
		return
	}
	f := flight{p.busy + p.whole, p.net.Sim.Order(sim.Arrival), r}
	p.wire.push(f)
	if p.wire.n == 1 {
		p.net.Sim.AtOrder(f.at, f.order, p.id, portWire)
	}
}

// armTimer sets the time of the next event, if nothing else happens before.
func (p *Port) armTimer() {
	at := sim.Never
	if p.ready&^p.paused != 0 {
		at = p.busy
	} else if h, ok := p.owner.(*Host); ok && p.paused>>p.net.cfg.DataPriority&1 == 0 {
		if next := h.nextWake(); next != sim.Never {
			at = max(next, p.busy)
		}
	}
	for m := p.paused; m != 0; m &= m - 1 {
		at = min(at, max(p.ends[bits.TrailingZeros16(m)], p.busy))
	}
	p.wake.Set(&p.net.Sim, at)
}

// pausePriority stops a priority until a time, or resumes it if that is now.
func (p *Port) pausePriority(prio int, until sim.Time) {
	now := p.net.Sim.Now()
	was := p.paused
	if p.paused>>prio&1 != 0 && prio == int(p.net.cfg.DataPriority) {
		p.quiet -= p.ends[prio] - now // the rest of a longer pause
	}
	p.paused &^= 1 << prio
	if until > now {
		p.paused |= 1 << prio
		p.ends[prio] = until
		if prio == int(p.net.cfg.DataPriority) {
			p.quiet += until - now
		}
	}
	p.setWatchdog(was)
	p.serveQueues()
}

// expirePauses ends the pauses that are over.
func (p *Port) expirePauses(now sim.Time) {
	was := p.paused
	for m := p.paused; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros16(m); p.ends[i] <= now {
			p.paused &^= 1 << i
		}
	}
	p.setWatchdog(was)
}
