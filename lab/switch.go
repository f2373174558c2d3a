package lab

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/reaction"
)

// A Switch stores a packet whole, and forwards it by the shortest way.
type Switch struct {
	net   *Network
	index int
	ports []*Port
	ways  [][]*Port // to each host
	role  *switchRole
	id    sim.ID

	used int64 // octets of the shared buffer
}

// ingress is the account of what came in by a port and has not left, data class
// alone.
type ingress struct {
	shared, over int64 // octets of the shared buffer, of the headroom
	most         int64 // of the headroom
	off          bool  // the neighbour is paused
	refresh      sim.Alarm
}

// Switch adds a switch.
func (n *Network) Switch() *Switch {
	s := &Switch{net: n, index: len(n.switches)}
	s.id = n.Sim.Add(s)
	n.switches = append(n.switches, s)
	return s
}

// String returns "switch" and its number.
func (s *Switch) String() string { return fmt.Sprintf("switch %d", s.index) }

// Ports returns the ports, in the order of the links.
func (s *Switch) Ports() []*Port { return s.ports }

// Headroom returns the most octets of headroom that any port has needed.
func (s *Switch) Headroom() (most int64) {
	for _, p := range s.ports {
		most = max(most, p.in.most)
	}
	return most
}

func (s *Switch) attach(p *Port) {
	p.index = len(s.ports)
	s.ports = append(s.ports, p)
	p.red = s.net.cfg.RED.Max > 0 && s.net.cfg.Variant != None && s.net.cfg.Variant != HPCC
	p.in.refresh = sim.NewAlarm(sim.Timer, s.id, uint32(p.index))
}

func (s *Switch) fill(*Port) {}

// Handle sends a pause again before it expires.
func (s *Switch) Handle(arg uint32) {
	p := s.ports[arg]
	if p.in.refresh.Rings(&s.net.Sim) && p.in.off {
		s.pause(p)
	}
}

func (s *Switch) arrive(in *Port, r ref, k *packet) {
	if k.kind == control {
		s.net.paused(in, k)
		s.net.pool.put(r)
		return
	}
	if int(k.proxy) == s.index {
		s.translate(r, k)
		return
	}
	s.forward(in, r, k)
}

// forward puts a packet into the queue of the port on its way. In is nil for
// the switch's own.
func (s *Switch) forward(in *Port, r ref, k *packet) {
	out := s.way(k)
	if out == nil || !s.admit(in, out, k) {
		s.net.lost(r, k)
		return
	}
	red := &s.net.cfg.RED
	if k.kind == data && out.red && red.At == AtArrival && red.meets(&s.net.marks, out.dataQueue().octets, k) {
		s.congested(k)
	}
	out.enqueue(r, k)
}

func (n *Network) lost(r ref, k *packet) {
	n.count.Lost++
	if k.kind == data {
		n.count.LostData++
		n.count.LostDataOctets += uint64(k.octets)
	}
	n.pool.put(r)
}

// way returns the port to a packet's host: by the flow where there are several,
// differently at each switch.
func (s *Switch) way(k *packet) *Port {
	ways := s.ways[k.to]
	switch len(ways) {
	case 0:
		return nil
	case 1:
		return ways[0]
	}
	x := (uint64(uint32(k.flow))<<8 | uint64(k.kind&1)) + uint64(s.index)<<40 + s.net.cfg.Seed
	x = (x ^ x>>31) * 0x9E3779B97F4A7C15
	x = (x ^ x>>29) * 0xBF58476D1CE4E5B9
	return ways[(x^x>>32)%uint64(len(ways))]
}

// meets decides for one packet.
func (red *RED) meets(draws *sim.Stream, queue int64, k *packet) bool {
	switch {
	case queue < red.Min:
		return false
	case queue >= red.Max:
		return true
	}
	p := red.Probability * float64(queue-red.Min) / float64(red.Max-red.Min)
	return float64(draws.Of(uint64(uint32(k.flow)), uint64(k.draw))>>11)/(1<<53) < p
}

// admit finds room for a packet, and says whether there was any.
func (s *Switch) admit(in, out *Port, k *packet) bool {
	b, octets := &s.net.cfg.Buffer, int64(k.octets)
	if b.Total == 0 || in == nil {
		k.in = -1
		return true
	}
	room := b.Total - s.used
	limit := min(int64(b.Alpha*float64(room)), room)
	if !b.PFC || k.prio != s.net.cfg.DataPriority {
		if out.queues[k.prio].octets+octets > limit {
			return false
		}
	} else {
		a := &in.in
		if b.XOFF > 0 {
			limit = min(b.XOFF, room+a.shared)
		}
		if a.shared+octets > limit || a.over > 0 {
			if a.over+octets > b.Headroom {
				return false
			}
			k.in = int32(in.index)
			a.over += octets
			a.most = max(a.most, a.over)
			if !a.off {
				s.pause(in)
			}
			return true
		}
		a.shared += octets
	}
	k.in = int32(in.index)
	s.used += octets
	return true
}

// departs is told when a packet leaves its queue.
func (s *Switch) departs(out *Port, r ref, k *packet) {
	if s.net.pool.traced && k.kind == data && k.hops < reaction.MaxHops {
		s.net.pool.trace(r)[k.hops] = reaction.Hop{
			Rate: uint64(out.rate), Queue: uint64(out.dataQueue().octets), Sent: out.sent,
			At: time.Duration(s.net.Sim.Now() / sim.Nanosecond),
		}
		k.hops++
	}
	if k.in >= 0 {
		s.release(s.ports[k.in], k)
	}
	red := &s.net.cfg.RED
	if k.kind == data && out.red && red.At == AtDeparture && red.meets(&s.net.marks, out.dataQueue().octets, k) {
		s.congested(k)
	}
}

// release gives back the room of a packet.
func (s *Switch) release(in *Port, k *packet) {
	b, a, octets := &s.net.cfg.Buffer, &in.in, int64(k.octets)
	if !b.PFC || k.prio != s.net.cfg.DataPriority {
		s.used -= octets
		return
	}
	over := min(a.over, octets) // the headroom is given back first
	a.over -= over
	a.shared -= octets - over
	s.used -= octets - over
	if !a.off {
		return
	}
	limit := int64(b.Alpha * float64(b.Total-s.used))
	if b.XOFF > 0 {
		limit = b.XOFF
	}
	if a.over == 0 && a.shared <= max(limit-b.XON, 0) {
		s.resume(in)
	}
}

// pause sends a pause to the neighbour at a port, and plans the next one for
// when half of it is over.
func (s *Switch) pause(p *Port) {
	p.in.off = true
	s.net.count.Pauses++
	s.net.sendPause(p, maxQuanta)
	p.in.refresh.Set(&s.net.Sim, s.net.Sim.Now()+quanta(maxQuanta, p.rate)/2)
}

func (s *Switch) resume(p *Port) {
	p.in.off = false
	s.net.count.Resumes++
	s.net.sendPause(p, 0)
	p.in.refresh.Set(&s.net.Sim, sim.Never)
}

const maxQuanta = 0xFFFF

// quanta returns how long so many quanta last at a rate: 512 bits each.
func quanta(n uint16, rate sim.Rate) sim.Time { return rate.Time(int64(n) * 64) }

// check returns where the accounts are not what the queues hold.
func (s *Switch) check() error {
	if s.net.cfg.Buffer.Total == 0 {
		return nil
	}
	held, data := int64(0), make([]int64, len(s.ports))
	for _, p := range s.ports {
		for i := range p.queues {
			for r := p.queues[i].head; r != 0; {
				k := s.net.pool.at(r)
				if k.in >= 0 {
					held += int64(k.octets)
				}
				if k.in >= 0 && s.net.cfg.Buffer.PFC && k.prio == s.net.cfg.DataPriority {
					data[k.in] += int64(k.octets)
				}
				r = k.next
			}
		}
	}
	over := int64(0)
	for i, p := range s.ports {
		over += p.in.over
		if data[i] != p.in.shared+p.in.over {
			return fmt.Errorf("%v, port %d: %d octets came in and wait, the account says %d", s, i, data[i],
				p.in.shared+p.in.over)
		}
	}
	if held != s.used+over {
		return fmt.Errorf("%v: %d octets wait, the buffer says %d", s, held, s.used+over)
	}
	return nil
}
