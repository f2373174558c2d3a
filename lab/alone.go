package lab

import "github.com/rocecn/rocecn/lab/sim"

// Alone returns how long a message takes in a network without other traffic,
// from Post until its last acknowledgement has arrived.
func (n *Network) Alone(from, to *Host, octets int64) sim.Time {
	n.ready()
	payload := int64(n.cfg.Payload)
	packets := (max(octets, 1) + payload - 1) / payload
	whole := int64(n.head) + payload + gap
	last := int64(n.head) + (max(octets, 1)-(packets-1)*payload+3)&^3 + gap

	var before, at, slowest sim.Time // when the last packet but one, and the last one, reach the end of each link
	for i, p := range n.path(from, to) {
		slowest = max(slowest, p.rate.Time(whole))
		before += p.rate.Time(whole)
		left := sim.Time(0) // when the packet before it has left this port
		if packets > 1 {
			left = before + sim.Time(packets-2)*slowest
		}
		if i == 0 {
			at = left
		}
		at = max(at, left) + p.rate.Time(last) + p.whole
		before += p.whole
	}
	for _, p := range n.path(to, from) {
		at += p.rate.Time(int64(n.ackHead)+gap) + p.whole
	}
	return at
}

// path returns the ports on a shortest path.
func (n *Network) path(from, to *Host) (ports []*Port) {
	p := from.port
	for {
		ports = append(ports, p)
		s, ok := p.peer.owner.(*Switch)
		if !ok || len(s.ways[to.index]) == 0 {
			return ports
		}
		p = s.ways[to.index][0]
	}
}
