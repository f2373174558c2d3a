package lab

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/rocecn/rocecn/lab/sim"
)

// A Network consists of hosts and switches, joined by links. Build it with
// Host, Switch, Link and Flow, in this order, then run it once.
type Network struct {
	Sim sim.Sim

	// Done, if not nil, is called for each message when its last acknowledgement
	// has arrived, with its length in octets and the time at which it was posted.
	// Delivered, if not nil, is called for each packet of data that arrives in
	// order, with the time at which it was sent.
	Done      func(f *Flow, octets int64, posted sim.Time)
	Delivered func(f *Flow, sent sim.Time)

	cfg      Config
	pool     pool
	hosts    []*Host
	switches []*Switch
	ports    []*Port
	flows    []*Flow
	losses   sim.Stream
	roles    roles
	proxies  map[*Switch]*Switch // of the hosts at a switch, if it is another switch
	edges    []int32             // by host: the PE on its side of the WAN; -1: none
	edged    bool                // there are PEs
	line     []place             // of distances
	head     int                 // octets of a packet of data besides the data
	ackHead  int                 // octets of an acknowledgement
	window   uint32              // packets that a flow may have sent and are not acknowledged
	routed   bool
	print    uint64 // see Print
	count    Counts
}

// Counts are the counters of a run.
type Counts struct {
	Packets, Octets          uint64 // data packets sent, with retransmissions, and octets of their frames
	Arrived, ArrivedOctets   uint64 // data packets that arrived at their host, and octets of their frames
	Delivered                uint64 // data packets that arrived in order
	Lost                     uint64 // packets of any kind dropped because a buffer was full
	LostData, LostDataOctets uint64 // data packets among Lost, and octets of their frames
	Trimmed                  uint64 // data packets among Lost: a switch forwarded their headers
	Hops                     uint64 // arrivals of packets at a node
	Reordered                uint64 // packets of data that overtook an earlier one: must be 0 without Spray
	Untimely                 uint64 // frames sent during another one, or in a pause: must be 0

	Congested uint64   // decisions of RED that a packet experienced congestion
	Marked    uint64   // packets marked CE
	CNPs      uint64   // CNPs sent by receivers, proxies and PEs
	FastCNPs  uint64   // Fast CNPs sent by switches
	Proxied   uint64   // messages to proxies
	FCNs      uint64   // messages to ingress PEs
	PPFCs     uint64   // PPFCs that stop or hold a flow
	Released  uint64   // PPFCs that end a stop or hold
	Braked    uint64   // PPFCs that a sender obeyed
	Unlearned uint64   // part of Refused: the proxy, PE or host did not know the sender's queue pair
	Unlabeled uint64   // data packets in the WAN without the label of their flow
	Refused   uint64   // packets that no role answered, and notifications that none accepted; mostly because of limits
	Ignored   uint64   // Fast CNPs to hosts that do not understand them
	Rejected  uint64   // part of Ignored: Fast CNPs that were answered with ICMPv6
	Again     uint64   // notifications that a sender counted as the same congestion
	Notified  uint64   // notifications that reached a reaction point
	Astray    uint64   // part of Notified: those for a flow that had not experienced congestion
	Notice    uint64   // octets of the frames of notifications
	Pauses    uint64   // PFC frames that pause
	Resumes   uint64   // PFC frames that end a pause
	Storms    uint64   // number of times that a watchdog emptied a queue
	Onset     sim.Time // time of the first decision in Congested, or Never
}

// New returns a Network without nodes, or a *[ConfigError].
func New(cfg Config) (*Network, error) {
	if err := cfg.checkFields(); err != nil {
		return nil, err
	}
	cfg.Payload, cfg.TraceHops, cfg.AckEvery = cfg.payloadOctets(), cfg.traceHops(), max(cfg.AckEvery, 1)
	if cfg.Variant == Oracle {
		cfg.Incapable = 0
	}
	n := &Network{cfg: cfg, losses: sim.NewStream(cfg.Seed, "losses", 0)}
	n.count.Onset = sim.Never
	n.pool.traced = cfg.Variant.HPCC()
	n.head, n.ackHead = overhead, overhead+4
	n.window = math.MaxUint32
	if cfg.Window > 0 {
		n.window = uint32(min(cfg.Window/int64(cfg.Payload), math.MaxUint32))
	}
	if n.pool.traced {
		n.cfg.AckEvery = 1 // a window may be one packet
		n.head += cfg.traceOctets()
		if cfg.Variant.byAck() {
			n.ackHead += cfg.traceOctets()
		}
	}
	return n, nil
}

// Counts returns the counters so far.
func (n *Network) Counts() Counts { return n.count }

// Print returns a hash of all arrivals: their times, their nodes, and their octets. Two runs with the same Print are
// the same run.
func (n *Network) Print() uint64 { return n.print }

// Hosts returns the hosts in the order in which they were made.
func (n *Network) Hosts() []*Host { return n.hosts }

// Switches returns the switches in the order in which they were made.
func (n *Network) Switches() []*Switch { return n.switches }

// Stream returns the random numbers of the run for a purpose and one of its
// users, such as a port.
func (n *Network) Stream(purpose string, index int) sim.Stream {
	return sim.NewStream(n.cfg.Seed, purpose, index)
}

// Flows returns the flows in the order in which they were made.
func (n *Network) Flows() []*Flow { return n.flows }

// A place is a host or a switch.
type place interface {
	attachPort(*Port)
	receivePacket(in *Port, r ref, k *packet)
	fillPort(*Port) // called when a port is free and its queues are empty
}

// Link joins two nodes with a link of this rate, and this delay in each
// direction. It returns the port of each. A host has one link.
func (n *Network) Link(a, b Node, rate sim.Rate, delay sim.Time) (atA, atB *Port) {
	return n.LinkUneven(a, b, rate, delay, delay)
}

// LinkUneven is Link with a delay for each direction.
func (n *Network) LinkUneven(a, b Node, rate sim.Rate, there, back sim.Time) (atA, atB *Port) {
	atA, atB = n.newPort(a.(place), rate, there), n.newPort(b.(place), rate, back)
	atA.peer, atB.peer = atB, atA
	for _, p := range []*Port{atA, atB} {
		p.whole = p.delay
		if _, ok := p.peer.owner.(*Switch); ok {
			p.whole += n.cfg.Pipeline
		}
	}
	return atA, atB
}

// A Node is a *[Host] or a *[Switch].
type Node interface{ String() string }

func (n *Network) newPort(owner place, rate sim.Rate, delay sim.Time) *Port {
	p := &Port{net: n, owner: owner, rate: rate, delay: delay}
	p.number = int32(len(n.ports))
	p.id = n.Sim.Add(p)
	p.wake, p.watch = sim.NewAlarm(sim.Departure, p.id, portWake), sim.NewAlarm(sim.Timer, p.id, portWatch)
	n.ports = append(n.ports, p)
	owner.attachPort(p)
	return p
}

// ensureRoutes finds the paths, if that was not done.
func (n *Network) ensureRoutes() {
	if !n.routed {
		_ = n.computeRoutes(context.Background())
	}
}

// computeRoutes finds the ports on shortest paths from every switch to every host and every switch, and makes the
// roles, if that was not done. It ends with the error of ctx when that ends; then it has to be called again.
func (n *Network) computeRoutes(ctx context.Context) error {
	if n.routed {
		return nil
	}
	for _, p := range n.ports {
		p.next = int32(n.placeIndex(p.peer.owner))
		from, ok1 := p.owner.(*Switch)
		to, ok2 := p.peer.owner.(*Switch)
		p.core = ok1 && ok2 && from.kind != inside && to.kind != inside
	}
	far := make([]int, len(n.hosts)+len(n.switches))
	n.edges = make([]int32, len(n.hosts))
	for _, s := range n.switches {
		s.routes, s.choices = make([]uint32, len(n.hosts)+len(n.switches)), make([][]*Port, len(s.ports))
		for i := range s.ports {
			s.choices[i] = s.ports[i : i+1 : i+1]
		}
	}
	for _, h := range n.hosts {
		if err := ctx.Err(); err != nil {
			return err
		}
		n.edges[h.index] = n.nearestEdge(h, far)
		n.computeDistances(h, far, true)
		for _, s := range n.switches {
			s.routes[h.index] = n.chooseShortest(s, far)
		}
	}
	for _, to := range n.switches {
		if err := ctx.Err(); err != nil {
			return err
		}
		n.computeDistances(to, far, true)
		for _, s := range n.switches {
			s.routes[len(n.hosts)+to.index] = n.chooseShortest(s, far)
		}
	}
	if err := n.createRoles(ctx); err != nil {
		return err
	}
	n.routed = true
	return nil
}

// placeIndex returns the index of a host or switch among all of them.
func (n *Network) placeIndex(at place) int {
	if s, ok := at.(*Switch); ok {
		return len(n.hosts) + s.index
	}
	return at.(*Host).index
}

// chooseShortest returns the index of the ports of a switch on shortest paths among its choices, given all distances.
func (n *Network) chooseShortest(s *Switch, far []int) uint32 {
	ports, here := s.scratch[:0], far[n.placeIndex(s)]
	for _, p := range s.ports {
		if d := far[p.next]; d >= 0 && d == here-1 {
			ports = append(ports, p)
		}
	}
	s.scratch = ports
	if len(ports) == 1 {
		return uint32(ports[0].index)
	}
	for i, same := range s.choices[len(s.ports):] {
		if slices.Equal(same, ports) {
			return uint32(len(s.ports) + i)
		}
	}
	s.choices = append(s.choices, slices.Clone(ports))
	return uint32(len(s.choices) - 1)
}

// computeDistances sets the number of links from each node to one; -1 is no path. Hosts do not forward, and if core is
// false no path goes through the WAN. It returns the nodes in order of distance, until the next call.
func (n *Network) computeDistances(to place, far []int, core bool) []place {
	for i := range far {
		far[i] = -1
	}
	far[n.placeIndex(to)] = 0
	line := append(n.line[:0], to)
	for i := 0; i < len(line); i++ {
		at := line[i]
		if _, isHost := at.(*Host); isHost && i > 0 {
			continue
		}
		here := far[n.placeIndex(at)]
		for _, p := range n.portsOf(at) {
			if far[p.next] < 0 && (core || !p.core) {
				far[p.next] = here + 1
				line = append(line, p.peer.owner)
			}
		}
	}
	n.line = line
	return line
}

// nearestEdge returns the PE that is nearest to a host on its side of the WAN; -1 if there is none.
func (n *Network) nearestEdge(h *Host, far []int) int32 {
	if !n.edged {
		return -1
	}
	for _, at := range n.computeDistances(h, far, false) {
		if s, ok := at.(*Switch); ok && s.kind == edge {
			return int32(s.index)
		}
	}
	return -1
}

func (n *Network) portsOf(at place) []*Port {
	switch at := at.(type) {
	case *Switch:
		return at.ports
	case *Host:
		if at.port != nil {
			return n.ports[at.port.number : at.port.number+1]
		}
	}
	return nil
}

// Until runs the network up to a time.
func (n *Network) Until(end sim.Time) {
	n.ensureRoutes()
	n.Sim.Until(end)
}

// Run is Until, except that it calls step, if that is not nil, after each 100,000 events, and ends soon after ctx
// has ended, with its error. Sim.Stop also ends the run, without an error.
func (n *Network) Run(ctx context.Context, end sim.Time, step func()) error {
	if err := n.computeRoutes(ctx); err != nil {
		return err
	}
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		more = n.Sim.Part(end, 100_000)
		if step != nil {
			step()
		}
	}
	return nil
}

// do is a function that is run as an event.
type do func()

func (d do) Handle(uint32) { d() }

// RunAt runs a function at a time. It is for things that happen only a few times in a run.
func (n *Network) RunAt(at sim.Time, f func()) {
	n.Sim.Schedule(at, sim.Application, n.Sim.Add(do(f)), 0)
}

// recordPacket adds an arrival to the print: its time, node and content. The content is all octets of a packet that
// has octets, and for data and acknowledgements the fields from which their octets are built.
func (n *Network) recordPacket(p *Port, k *packet) {
	n.count.Hops++
	x := n.print ^ uint64(n.Sim.Now())<<8 ^ uint64(p.number)<<48 ^ uint64(k.octets)<<3 ^ uint64(k.kind)
	x = (x ^ x>>29) * printFactor
	if k.text != 0 {
		n.print = foldOctets(x, n.pool.octets(k))
		return
	}
	x ^= uint64(k.number)<<32 | uint64(uint32(k.flow))
	if k.ce {
		x = ^x
	}
	if k.egress >= 0 {
		x ^= uint64(k.label) << 20
	}
	x *= printFactor
	n.print = x ^ x>>29
}

const printFactor = 0x9E3779B97F4A7C15

// foldOctets adds octets to a print.
func foldOctets(x uint64, octets []byte) uint64 {
	for ; len(octets) >= 8; octets = octets[8:] {
		x = (x ^ binary.LittleEndian.Uint64(octets)) * printFactor
		x ^= x >> 32
	}
	for _, b := range octets {
		x = (x ^ uint64(b)) * printFactor
	}
	return x ^ x>>29
}

// Check returns an error if the counters are inconsistent: packets or octets that are neither delivered, lost,
// nor under way, flows out of order, frames sent during a pause or another frame, or buffers that differ from
// their queues.
func (n *Network) Check() error {
	var waiting, flying int
	var there, octets int64 // of data
	sum := func(k *packet) {
		if k.kind == data {
			there++
			octets += k.size()
		}
	}
	waits := func(q *queue) (held int64) {
		for r := q.head; r != 0; r = n.pool.packetAt(r).next {
			waiting++
			held += int64(n.pool.packetAt(r).octets)
			sum(n.pool.packetAt(r))
		}
		return held
	}
	for _, p := range n.ports {
		flying += p.wire.n + p.direct
		for i := range p.wire.n {
			sum(n.pool.packetAt(p.wire.ring[(p.wire.head+i)&(len(p.wire.ring)-1)].r))
		}
		for i := range p.queues {
			if held := waits(&p.queues[i]); held != p.queues[i].octets {
				return fmt.Errorf("%v, port %d: queue %d has %d octets, and says %d", p.owner, p.number, i,
					held, p.queues[i].octets)
			}
		}
	}
	for _, s := range n.switches {
		stored := int64(0)
		for _, v := range s.allValves() {
			if v != nil {
				stored += waits(&v.stored)
			}
		}
		if stored != s.stored {
			return fmt.Errorf("%v: %d octets are stored, and it says %d", s, stored, s.stored)
		}
	}
	making := n.roles.making
	c := &n.count
	switch {
	case waiting+flying+making != n.pool.used:
		return fmt.Errorf("%d packets wait, %d fly, %d are being made, but %d are there", waiting, flying,
			making, n.pool.used)
	case c.Untimely > 0:
		return fmt.Errorf("%d frames were sent while another was, or in a pause", c.Untimely)
	case c.Reordered > 0 && !n.cfg.Spray:
		return fmt.Errorf("%d packets overtook others of their flow", c.Reordered)
	}
	for _, s := range n.switches {
		if err := s.checkAccounts(); err != nil {
			return err
		}
	}
	if c.Packets != c.Arrived+c.LostData+uint64(there) {
		return fmt.Errorf("%d packets of data sent, but %d arrived, %d were lost, %d are under way",
			c.Packets, c.Arrived, c.LostData, there)
	}
	if c.Octets != c.ArrivedOctets+c.LostDataOctets+uint64(octets) {
		return fmt.Errorf("%d octets sent, but %d arrived, %d were lost, %d are under way",
			c.Octets, c.ArrivedOctets, c.LostDataOctets, octets)
	}
	return nil
}
