package lab

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/reaction"
)

// A Switch is store-and-forward, and uses shortest paths.
type Switch struct {
	net     *Network
	index   int
	kind    site
	ports   []*Port
	routes  []uint32  // indexes of choices: to each host, then to each switch
	choices [][]*Port // sets of ports to a destination: each port alone, then the others
	scratch []*Port

	role *switchRole
	id   sim.ID

	used int64 // octets of the shared buffer
	over int64 // of the headroom of all ports

	stored, mostStored int64 // octets that a PE has stored of flows that it has stopped or held
}

// site is the place of a switch.
type site uint8

const (
	inside site = iota // in a data centre
	edge               // a PE: between a data centre and the WAN
	core               // a router of the WAN
)

// account counts the packets of the data class that came in by a port and have
// not left.
type account struct {
	own          int64 // octets of its reserve
	shared, over int64 // octets of the shared buffer, of the headroom
	off          bool  // the neighbour is paused
}

// Switch adds a switch of a data centre.
func (n *Network) Switch() *Switch { return n.addSwitch(inside) }

// ProxyAt makes another switch the proxy of the hosts at one; by default that switch is their proxy. A proxy
// that learns sees the packets that pass the hosts' switch, without any delay. Call it before the network runs.
func (n *Network) ProxyAt(hosts, proxy *Switch) {
	if n.proxies == nil {
		n.proxies = map[*Switch]*Switch{}
	}
	n.proxies[hosts] = proxy
}

// proxySwitch returns the proxy of the hosts at a switch.
func (s *Switch) proxySwitch() *Switch {
	if p := s.net.proxies[s]; p != nil {
		return p
	}
	return s
}

// PE adds a node at the edge of the WAN. Packets from one data centre to another go through the WAN in a tunnel
// of IP in IPv6, to the PE that is nearest to their destination. The links between PEs and routers are the WAN.
func (n *Network) PE() *Switch { return n.addSwitch(edge) }

// Router adds a node of the WAN.
func (n *Network) Router() *Switch { return n.addSwitch(core) }

func (n *Network) addSwitch(kind site) *Switch {
	s := &Switch{net: n, index: len(n.switches), kind: kind}
	n.edged = n.edged || kind == edge
	s.id = n.Sim.Add(s)
	n.switches = append(n.switches, s)
	return s
}

// String returns "switch", "PE" or "router" and its number.
func (s *Switch) String() string {
	return fmt.Sprintf("%s %d", [...]string{"switch", "PE", "router"}[s.kind], s.index)
}

// Ports returns the ports, in the order of the links.
func (s *Switch) Ports() []*Port { return s.ports }

// Headroom returns the most octets of headroom that any port has needed.
func (s *Switch) Headroom() (most int64) {
	for _, p := range s.ports {
		most = max(most, p.headroom)
	}
	return most
}

// Stored returns the most octets that a PE ever had stored of flows that it was asked to stop or hold.
func (s *Switch) Stored() int64 { return s.mostStored }

func (s *Switch) attachPort(p *Port) {
	p.index = int32(len(s.ports))
	s.ports = append(s.ports, p)
	p.draws = s.net.Stream("marks", s.index<<16|int(p.index))
	p.red = s.net.cfg.RED.Max > 0 && s.net.cfg.Variant.Decides()
	p.refresh = sim.NewAlarm(sim.Timer, s.id, uint32(p.index))
}

func (s *Switch) fillPort(*Port) {}

// Handle sends a pause again before it expires.
func (s *Switch) Handle(arg uint32) {
	p := s.ports[arg]
	if p.refresh.Rings(&s.net.Sim) && p.in.off {
		s.pausePort(p)
	}
}

func (s *Switch) receivePacket(in *Port, r ref, k *packet) {
	if k.kind == control {
		s.net.handlePause(in, k)
		s.net.pool.release(r)
		return
	}
	switch {
	case int(k.to) != ^s.index:
		s.forwardPacket(in, r, k)
	case s.role.pause != nil:
		s.role.sendLater(r, s.net.cfg.EdgeDelay)
	default:
		s.handleMessage(r, k)
	}
}

// forwardPacket puts a packet into the queue of the port on its path. in is nil for
// the switch's own packets.
func (s *Switch) forwardPacket(in *Port, r ref, k *packet) {
	if s.role.learns {
		s.observePacket(r, k)
	}
	if int(k.egress) == s.index {
		s.unwrapPacket(k)
	}
	out := s.choosePort(k)
	if out != nil && out.core && s.kind == edge && k.egress < 0 && s.wrapPacket(k) {
		out = s.choosePort(k)
	}
	if k.kind == message && s.net.cfg.NoticeLoss > 0 && s.net.losses.Float64() < s.net.cfg.NoticeLoss {
		out = nil
	}
	if out == nil {
		s.net.countLost(r, k)
		return
	}
	if s.role.pause != nil && k.kind == data && k.egress >= 0 && int(k.ingress) == s.index {
		v := s.role.valveOf(k.flow)
		v.measureRate(k.octets)
		if v.isShut() {
			if s.admitPacket(in, &v.stored, k) {
				v.storePacket(r, k)
			} else {
				s.net.countLost(r, k)
			}
			return
		}
		v.scheduleNext(out, k.octets)
	}
	if out.drops && k.prio == s.net.cfg.DataPriority || !s.admitPacket(in, &out.queues[k.prio], k) {
		s.dropPacket(in, out, r, k)
		return
	}
	s.enqueueAdmitted(out, r, k)
}

// enqueueAdmitted puts a packet that admitPacket has accepted into the queue of a port.
func (s *Switch) enqueueAdmitted(out *Port, r ref, k *packet) {
	if s.net.cfg.RED.At == AtArrival {
		s.checkCongestion(out, r, k)
	}
	out.enqueuePacket(r, k)
}

// checkCongestion decides whether a packet of data meets congestion at a port.
func (s *Switch) checkCongestion(out *Port, r ref, k *packet) {
	if k.kind != data {
		return
	}
	if out.red && s.net.cfg.RED.isCongested(&out.draws, out.dataQueue().octets, k) {
		s.notifyCongested(out, r, k)
	}
	if out.level > 0 {
		s.askPauser(out, r, k)
	}
}

// tunnelOctets is the length that a tunnel adds: an IPv6 header.
const tunnelOctets = 40

// wrapPacket puts a packet into a tunnel if it needs one, and reports whether it did.
func (s *Switch) wrapPacket(k *packet) bool {
	to := int32(-1)
	if k.to >= 0 {
		to = s.net.edges[k.to]
	}
	if to < 0 || int(to) == s.index {
		return false
	}
	k.label = s.flowLabel(k)
	k.ingress, k.egress = int32(s.index), to
	k.octets += tunnelOctets
	return true
}

func (s *Switch) unwrapPacket(k *packet) {
	k.octets -= tunnelOctets
	k.egress = -1
}

// hashPath returns the hash that selects one of several equal paths.
func hashPath(src, dst, ports uint32) uint32 {
	x := (uint64(src)<<32 | uint64(dst)) * 0x9E3779B97F4A7C15
	x = (x ^ x>>29 ^ uint64(ports)) * 0xBF58476D1CE4E5B9
	return uint32(x>>32) ^ uint32(x)
}

// countLost counts a packet as lost, and releases it.
func (n *Network) countLost(r ref, k *packet) {
	n.countLoss(k)
	n.pool.release(r)
}

// countLoss counts a packet as lost. One that was trimmed is counted already.
func (n *Network) countLoss(k *packet) {
	if k.kind == trimmed {
		return
	}
	n.count.Lost++
	if k.kind == data {
		n.count.LostData++
		n.count.LostDataOctets += uint64(k.size())
	}
}

// waysTo returns the ports on shortest paths to a host, given its index, or to a switch, given ^ of its index.
func (s *Switch) waysTo(to int) []*Port {
	if to < 0 {
		to = len(s.net.hosts) + ^to
	}
	return s.choices[s.routes[to]]
}

// choosePort returns the port on the path of a packet. Its hash selects one of
// several, differently at each switch.
func (s *Switch) choosePort(k *packet) *Port {
	var ways []*Port
	hash := k.hash
	switch {
	case k.egress >= 0:
		ways, hash = s.waysTo(^int(k.egress)), hashPath(uint32(k.ingress), uint32(k.egress), k.label)
	default:
		ways = s.waysTo(int(k.to))
	}
	switch len(ways) {
	case 0:
		return nil
	case 1:
		return ways[0]
	}
	x := uint64(hash) + uint64(s.index)<<32 + s.net.cfg.Seed
	x = (x ^ x>>31) * 0x9E3779B97F4A7C15
	x = (x ^ x>>29) * 0xBF58476D1CE4E5B9
	return ways[(x^x>>32)%uint64(len(ways))]
}

// isCongested reports whether a packet experiences congestion.
func (red *RED) isCongested(draws *sim.Stream, queue int64, k *packet) bool {
	switch {
	case queue < red.Min:
		return false
	case queue >= red.Max:
		return true
	}
	p := red.Probability * float64(queue-red.Min) / float64(red.Max-red.Min)
	return float64(draws.Number(uint64(uint32(k.flow)), uint64(k.draw))>>11)/(1<<53) < p
}

// admitPacket reserves buffer for a packet that is to join a queue, and reports whether there was enough. in is nil
// for the switch's own packets.
func (s *Switch) admitPacket(in *Port, q *queue, k *packet) bool {
	b, octets := &s.net.cfg.Buffer, int64(k.octets)
	queued := q.octets + octets
	if b.Queue > 0 && queued > b.Queue {
		return false
	}
	k.in, k.kept = -1, b.Total > 0
	if !k.kept {
		return true
	}
	if in != nil {
		k.in = in.index
	}
	free := b.Total - s.used
	limit := int64(b.Alpha * float64(free))
	if !s.isLossless(k) {
		if queued > limit || octets > free {
			k.kept = false
			return false
		}
		s.used += octets
		return true
	}
	a := &in.in
	if a.shared+a.over == 0 && a.own+octets <= b.Reserve {
		a.own += octets
		return true
	}
	if b.XOFF > 0 {
		limit = min(b.XOFF, free+a.shared)
	}
	if a.shared+octets <= limit && octets <= free && a.over == 0 {
		a.shared += octets
		s.used += octets
		return true
	}
	fits := a.over+octets <= b.Headroom && (b.Pool == 0 || s.over+octets <= b.Pool)
	if fits {
		a.over += octets
		s.over += octets
		in.headroom = max(in.headroom, a.over)
	}
	// A packet for which there is no headroom exceeds the limit as well. With nothing of its own in the buffer a
	// neighbour is not paused: nothing would leave that resumes it.
	if !a.off && a.own+a.shared+a.over > 0 {
		s.pausePort(in)
	}
	k.kept = fits
	return fits
}

// isLossless reports whether a packet is counted in the account of its ingress port.
func (s *Switch) isLossless(k *packet) bool {
	return s.net.cfg.Buffer.PFC && k.in >= 0 && k.prio == s.net.cfg.DataPriority
}

// handleDeparture handles a packet that leaves its queue.
func (s *Switch) handleDeparture(out *Port, r ref, k *packet) {
	if k.kept {
		s.releaseBuffer(k)
	}
	if s.net.cfg.RED.At == AtDeparture {
		s.checkCongestion(out, r, k)
	}
	if s.net.pool.traced && k.kind == data && int(k.hops) < s.net.cfg.TraceHops {
		t := s.net.pool.trace(r)
		t.hops[k.hops] = reaction.Hop{
			B: uint64(out.rate), QLen: uint64(out.dataQueue().octets), TxBytes: out.sent,
			TS: time.Duration(s.net.Sim.Now() / sim.Nanosecond),
		}
		t.ports[k.hops] = out.number
		k.hops++
	}
}

// releaseBuffer frees the buffer of a packet.
func (s *Switch) releaseBuffer(k *packet) {
	k.kept = false
	octets := int64(k.octets)
	if !s.isLossless(k) {
		s.used -= octets
		return
	}
	b, in := &s.net.cfg.Buffer, s.ports[k.in]
	a := &in.in
	over := min(a.over, octets) // the headroom is freed first, the reserve last
	shared := min(a.shared, octets-over)
	a.over -= over
	s.over -= over
	a.shared -= shared
	s.used -= shared
	a.own -= octets - over - shared
	if !a.off {
		return
	}
	limit := int64(b.Alpha * float64(b.Total-s.used))
	if b.XOFF > 0 {
		limit = b.XOFF
	}
	if a.over == 0 && a.shared <= max(limit-b.XON, 0) {
		s.resumePort(in)
	}
}

// pausePort sends a pause to the neighbour at a port, and schedules the next one
// for when half of it has passed.
func (s *Switch) pausePort(p *Port) {
	p.in.off = true
	s.net.count.Pauses++
	s.net.sendPause(p, maxQuanta)
	p.refresh.Set(&s.net.Sim, s.net.Sim.Now()+quantaTime(maxQuanta, p.rate)/2)
}

func (s *Switch) resumePort(p *Port) {
	p.in.off = false
	s.net.count.Resumes++
	s.net.sendPause(p, 0)
	p.refresh.Set(&s.net.Sim, sim.Never)
}

const maxQuanta = 0xFFFF

// quantaTime returns the duration of n quanta, of 512 bits each, at a rate.
func quantaTime(n uint16, rate sim.Rate) sim.Time { return rate.Time(int64(n) * 64) }

// checkAccounts returns an error if the accounts differ from the queues.
func (s *Switch) checkAccounts() error {
	if s.net.cfg.Buffer.Total == 0 {
		return nil
	}
	held, lossless := int64(0), make([]int64, len(s.ports))
	sum := func(q *queue) {
		for r := q.head; r != 0; {
			k := s.net.pool.packetAt(r)
			switch {
			case k.kept && s.isLossless(k):
				lossless[k.in] += int64(k.octets)
			case k.kept:
				held += int64(k.octets)
			}
			r = k.next
		}
	}
	for _, p := range s.ports {
		for i := range p.queues {
			sum(&p.queues[i])
		}
	}
	for _, v := range s.allValves() {
		if v != nil {
			sum(&v.stored)
		}
	}
	over := int64(0)
	for i, p := range s.ports {
		a := &p.in
		over += a.over
		held += a.shared
		if lossless[i] != a.own+a.shared+a.over {
			return fmt.Errorf("%v, port %d: %d octets came in and wait, the account says %d", s, i, lossless[i],
				a.own+a.shared+a.over)
		}
	}
	if held != s.used || over != s.over {
		return fmt.Errorf("%v: %d and %d octets wait, the buffer says %d and %d", s, held, over, s.used, s.over)
	}
	return nil
}
