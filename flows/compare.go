package flows

import (
	"cmp"
	"math"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/hash"
)

// A Point is one of two places where the same traffic was captured.
type Point uint8

// The two capture points.
const (
	PointA Point = iota
	PointB
)

// A ComparisonConfig configures a [Comparison]. The zero value has the defaults.
type ComparisonConfig struct {
	// Window is the maximum number of packets of one point between a packet and its counterpart at
	// the other point, DefaultWindow if 0. Each remembered packet takes about 140 bytes, at most
	// Window for each point.
	Window int
	// MaxFlows is the maximum number of flows, 131,072 if 0. It is exceeded if the remembered
	// packets belong to more flows. A flow takes about 300 bytes, and 4.6 KB more once it has five
	// positive delays, and the same for negative delays.
	MaxFlows int
}

// DefaultWindow is the default of [ComparisonConfig.Window], in packets.
const DefaultWindow = 1 << 17

// A Comparison matches packets captured at two points and counts losses, copies, rewritten fields
// and delays. It is not safe for concurrent use.
//
// Two packets match if source, destination, queue pair, PSN, opcode and, over IPv4, Identification
// are equal. The ICRC covers these fields, so they do not change on the way. If the Identifications
// of a flow vary, they distinguish retransmissions by the sender from copies made by the network.
// Otherwise, and over IPv6, several equal packets are matched in order. If one point has more of them,
// it is unknown which one was lost, and no delay is derived from them.
//
// Give it packets of both points alternately, as [Comparison.Next] asks, and call [Comparison.Finish]
// after the last one. The clocks of the points need not agree.
type Comparison struct {
	window   uint64
	maxFlows int
	turn     Point // point of the last packet
	sides    [2]side

	groups flowtable.Table[groupKey, group]

	flows        flowtable.Table[key, comparedFlow]
	numbers      uint64 // numbers assigned to flows so far
	evicted      comparedFlow
	evictedFlows uint64 // number of evicted flows

	typical time.Duration // moving average of the delays of all flows
}

// NewComparison returns an empty Comparison.
func NewComparison(config ComparisonConfig) *Comparison {
	return &Comparison{
		window: uint64(cmp.Or(max(config.Window, 0), DefaultWindow)), turn: PointB,
		maxFlows: cmp.Or(max(config.MaxFlows, 0), defaultMaxFlows),
		groups:   flowtable.New[groupKey, group](math.MaxInt32, true, (*groupKey).hash),
		flows:    flowtable.New[key, comparedFlow](math.MaxInt32, true, (*key).Hash),
	}
}

// Next returns the point that should supply the next packet: the one with fewer unmatched packets.
// The points alternate if the numbers are equal, or if half a window is unmatched at both: otherwise
// packets of one point would leave the window before their counterparts are read.
func (c *Comparison) Next() Point {
	limit := max(c.window/2, 1)
	switch a, b := min(c.sides[PointA].waiting, limit), min(c.sides[PointB].waiting, limit); {
	case a < b:
		return PointA
	case b < a:
		return PointB
	}
	return 1 - c.turn
}

// A side holds the last packets of one point in a ring that grows up to the window.
type side struct {
	ring        []remembered // packet n is at index n modulo the length, a power of two
	begin, end  uint64       // numbers of the packets in the ring, from 1, end exclusive
	waiting     uint64       // number of unmatched packets in the ring
	first, last int64        // earliest and latest time of a packet
}

// remembered is a packet captured at a point.
type remembered struct {
	time  int64
	delay int64  // delay of the pair, if state is completes
	next  uint64 // number of the next unmatched packet of the group; 0 for none
	group uint32
	class uint8 // traffic class
	state state
}

// state is the matching state of a remembered packet.
type state uint8

const (
	waits     state = iota
	met             // its counterpart came later
	completes       // its counterpart came earlier; delay is set
)

func (s *side) packetAt(n uint64) *remembered { return &s.ring[n&uint64(len(s.ring)-1)] }

// addPacket stores a packet and returns its number.
func (s *side) addPacket(r remembered) uint64 {
	if s.end == 0 {
		s.begin, s.end = 1, 1
	}
	if s.end-s.begin == uint64(len(s.ring)) {
		old := *s
		s.ring = make([]remembered, max(64, 2*len(s.ring)))
		for n := s.begin; n < s.end; n++ {
			*s.packetAt(n) = *old.packetAt(n)
		}
	}
	n := s.end
	*s.packetAt(n) = r
	s.end++
	return n
}

// A group is a set of remembered packets with equal keys. All unmatched ones are of the same point,
// because a new packet is matched with the first unmatched one of the other point.
type group struct {
	flow   *comparedFlow
	queue  Point     // point of the unmatched packets
	head   uint64    // number of the first unmatched packet; 0 for none
	last   [2]uint64 // number of the last packet, by point
	seen   [2]uint32 // packets, by point
	live   [2]uint32 // remembered packets, by point
	copies [2]uint32 // packets too close to the previous one to be retransmissions, by point
	known  bool      // one packet was matched or counted as lost: further unmatched ones are copies
}

// A groupKey contains the fields that are equal in all packets of a group.
type groupKey struct {
	flow   uint64 // number of the flow
	psn    uint32
	ident  uint16
	opcode bth.Opcode
}

func (k *groupKey) hash(seed uint64) uint64 {
	return hash.Mix(seed^k.flow, seed>>32^seed<<32^(uint64(k.psn)|uint64(k.ident)<<32|uint64(k.opcode)<<48))
}

// copyTime is the maximum time between a request or READ response and its copy, if Identifications
// do not tell. Retransmissions take longer.
const copyTime = int64(10 * time.Microsecond)

// Observe records a packet captured at a point, with its time by the clock of that point.
func (c *Comparison) Observe(at Point, p *Packet, now time.Time) {
	c.turn = at
	if p.kind < requestKind || p.kind > ppfcKind {
		return
	}
	t := unixNano(now)
	s, other := &c.sides[at], &c.sides[1-at]
	if s.end == 0 {
		s.first, s.last = t, t
	}
	s.first, s.last = min(s.first, t), max(s.last, t)
	if s.end-s.begin == c.window {
		c.forgetOldest(at)
	}
	f := c.lookUpFlow(&p.pkt.Flow)
	f.Packets[at]++
	f.ids[at].observePacket(p)
	id, g := c.lookUpGroup(f, p)
	packet := remembered{time: t, group: id, class: p.effectiveClass()}
	if n := g.last[at]; n >= s.begin && n > 0 && p.hasSequence() && max(t-s.packetAt(n).time, s.packetAt(n).
		time-t) <= copyTime {
		g.copies[at]++
	}
	if g.head != 0 && g.queue != at {
		twin := other.packetAt(g.head)
		twin.state, g.head, g.known = met, twin.next, true
		other.waiting--
		packet.state, packet.delay = completes, t-twin.time
		if at == PointA {
			packet.delay = -packet.delay
			f.countMatch(packet.class, twin.class)
		} else {
			f.countMatch(twin.class, packet.class)
		}
	}
	n := s.addPacket(packet)
	if packet.state == waits {
		s.waiting++
		if g.head == 0 {
			g.head, g.queue = n, at
		} else { // the previous packet of the group is unmatched as well
			s.packetAt(g.last[at]).next = n
		}
	}
	g.last[at] = n
	g.seen[at]++
	g.live[at]++
	f.remembered++
}

// hasSequence reports whether a packet has its own PSN, so that an equal packet is a retransmission
// or a copy. Acknowledgements and notifications may repeat a PSN.
func (p *Packet) hasSequence() bool {
	return p.kind == requestKind || p.kind == answerKind && roles[p.pkt.Opcode].message == MessageRead
}

// lookUpGroup returns the group of a packet, adding it if needed.
func (c *Comparison) lookUpGroup(f *comparedFlow, p *Packet) (uint32, *group) {
	k := groupKey{f.number, p.pkt.PSN, p.ident, p.pkt.Opcode}
	hash := k.hash(c.groups.Seed)
	g, id := c.groups.Find(&k, hash)
	if g == nil {
		id = c.groups.Add(&k, hash, 0)
		g = c.groups.Value(id)
		g.flow = f
	}
	return id, g
}

// forgetOldest removes the oldest packet of a point and counts it.
func (c *Comparison) forgetOldest(at Point) {
	s := &c.sides[at]
	r := s.packetAt(s.begin)
	s.begin++
	g := c.groups.Value(r.group)
	switch r.state {
	case waits:
		g.head = r.next
		s.waiting--
		c.countMissing(at, g, r.time)
	case completes:
		c.countDelay(g, r)
	}
	g.flow.remembered--
	if g.live[at]--; g.live == [2]uint32{} {
		c.groups.Remove(r.group)
	}
}

// countDelay records the delay of a pair, unless its packets may be different ones.
func (c *Comparison) countDelay(g *group, r *remembered) {
	f := g.flow
	if g.seen[PointA] != g.seen[PointB] && !f.hasIdentifications() {
		return
	}
	d := time.Duration(r.delay)
	if f.Delay.Count() == 0 {
		f.typical = d
	}
	if c.typical == 0 {
		c.typical = d
	}
	f.typical += (d - f.typical) / 16
	c.typical += (d - c.typical) / 16
	f.Delay.addDelay(d)
}

// countMissing counts a packet without counterpart as lost, added or a copy.
func (c *Comparison) countMissing(at Point, g *group, t int64) {
	f := g.flow
	copied := false
	if f.hasIdentifications() {
		copied, g.known = g.known, true
	} else if g.copies[at] > g.copies[1-at] {
		copied = true
		g.copies[at]--
	}
	switch {
	case copied:
		f.Duplicated[at]++
	case at == PointB:
		f.Added++
	default:
		f.Lost++
		typical := c.typical
		if f.Delay.Count() > 0 {
			typical = f.typical
		}
		if b := &c.sides[PointB]; b.end == 0 || t+int64(typical) < b.first || t+int64(typical) > b.last {
			f.Outside++
		}
	}
}

// Finish ends the comparison: the packets still unmatched have no counterpart.
func (c *Comparison) Finish() {
	for i := range c.sides {
		s := &c.sides[i]
		for n := s.begin; n < s.end; n++ {
			if r := s.packetAt(n); r.state == completes {
				c.countDelay(c.groups.Value(r.group), r)
				r.state = met
			}
		}
	}
	for _, at := range [...]Point{PointA, PointB} {
		for s := &c.sides[at]; s.begin < s.end; {
			c.forgetOldest(at)
		}
	}
}

// identifications counts at one point whether the IPv4 Identifications of a flow vary.
type identifications struct {
	variety
	psn    uint32 // PSN of the previous packet
	opcode bth.Opcode
}

func (i *identifications) observePacket(p *Packet) {
	if p.pkt.Flow.QP&overIPv4 == 0 || i.set && i.psn == p.pkt.PSN && i.opcode == p.pkt.Opcode && i.last == p.ident {
		return // IPv6, or a copy
	}
	i.addIdent(p.ident)
	i.psn, i.opcode = p.pkt.PSN, p.pkt.Opcode
}
