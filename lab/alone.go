package lab

import "github.com/rocecn/rocecn/lab/sim"

// Alone returns the time that a message takes in a network without other traffic, from Post until the arrival of its
// last acknowledgement, at the rate of the port.
func (n *Network) Alone(from, to *Host, octets int64) sim.Time {
	return n.aloneTime(from, to, octets, from.port.rate)
}

// Alone returns the same time for a message of the flow, at the flow's maximum rate. After a pause the first two
// packets leave at the same time, so a message may take less than this, by the time of one packet.
func (f *Flow) Alone(octets int64) sim.Time {
	return f.net.aloneTime(f.src, f.dst, octets, sim.Rate(f.line))
}

func (n *Network) aloneTime(from, to *Host, octets int64, rate sim.Rate) sim.Time {
	n.ensureRoutes()
	payload := int64(n.cfg.Payload)
	packets := (max(octets, 1) + payload - 1) / payload
	whole := int64(n.head) + payload + gap
	last := int64(n.head) + (max(octets, 1)-(packets-1)*payload+3)&^3 + gap

	var before, at sim.Time // when the last packet but one, and the last one, reach the end of each link
	pace := rate.Time(whole)
	slowest := pace // the time from one packet to the next
	n.walkPath(from, to, func(p *Port, tunnel int64) {
		one := p.rate.Time(whole + tunnel)
		slowest = max(slowest, one)
		before += one
		left := sim.Time(0) // when the packet before it has left this port
		if packets > 1 {
			left = before + sim.Time(packets-2)*slowest
		}
		if p == from.port {
			at = max(left, sim.Time(packets-1)*pace)
		}
		at = max(at, left) + p.rate.Time(last+tunnel) + p.whole
		before += p.whole
	})
	n.walkPath(to, from, func(p *Port, tunnel int64) {
		at += p.rate.Time(int64(n.ackHead)+gap+tunnel) + p.whole
	})
	return at
}

// walkPath calls do for each port on a shortest path, with the octets that a tunnel adds there.
func (n *Network) walkPath(from, to *Host, do func(p *Port, tunnel int64)) {
	p, egress := from.port, -1
	for {
		tunnel := int64(0)
		if egress >= 0 {
			tunnel = tunnelOctets
		}
		do(p, tunnel)
		s, ok := p.peer.owner.(*Switch)
		if !ok {
			return
		}
		if s.index == egress {
			egress = -1
		}
		ways := s.waysTo(to.index)
		if pe := int(n.edges[to.index]); egress < 0 && len(ways) > 0 && ways[0].core && s.kind == edge &&
			pe >= 0 && pe != s.index {
			egress = pe
		}
		if egress >= 0 {
			ways = s.waysTo(^egress)
		}
		if len(ways) == 0 {
			return
		}
		p = ways[0]
	}
}
