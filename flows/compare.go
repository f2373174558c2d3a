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

// The points.
const (
	PointA Point = iota
	PointB
)

// A ComparisonConfig is what a user of [NewComparison] chooses. The zero value
// stands for the defaults.
type ComparisonConfig struct {
	// Window is how many packets of a point may come between a packet and its
	// counterpart at the other point, DefaultWindow if 0. At most so many packets of
	// each point are remembered, in some 140 octets each.
	Window int
	// MaxFlows is how many flows are kept, 131,072 if 0; more where the packets
	// that are remembered are of more flows. A flow takes some 300 octets, 4.6 KB
	// more once it has five positive delays, and as much for negative ones.
	MaxFlows int
}

// DefaultWindow is how many packets of a point may come between a packet and its
// counterpart at the other point, unless a [ComparisonConfig] says so.
const DefaultWindow = 1 << 17

// A Comparison finds the same packets in the captures of two points, and says
// what happened between. It is not safe for concurrent use.
//
// Packets are the same that have the same source, destination, queue pair, PSN,
// opcode and, over IPv4, Identification, which the ICRC covers: nothing on the
// way changes it. Where a flow's Identifications vary they tell the packets that
// a sender repeats from the copies that a network makes. Where they do not, and
// over IPv6, packets that are the same in all the rest are matched in their
// order, and as long as both points do not have the same number of them, no
// delay is taken from them, since it is not known which one was lost.
//
// Give it packets of both points by turns, as [Comparison.Next] asks for them:
// their clocks need not agree.
type Comparison struct {
	window   uint64
	maxFlows int
	turn     Point // whose packet came last
	sides    [2]side

	groups flowtable.Table[groupKey, group]

	flows        flowtable.Table[key, comparedFlow]
	numbers      uint64 // given to flows so far
	evicted      comparedFlow
	evictedFlows uint64 // flows that were evicted

	typical time.Duration // of the delays of all flows, roughly
}

// NewComparison returns an empty comparison.
func NewComparison(config ComparisonConfig) *Comparison {
	return &Comparison{
		window: uint64(cmp.Or(max(config.Window, 0), DefaultWindow)), turn: PointB,
		maxFlows: cmp.Or(max(config.MaxFlows, 0), defaultMaxFlows),
		groups:   flowtable.New[groupKey, group](math.MaxInt32, true, (*groupKey).hash),
		flows:    flowtable.New[key, comparedFlow](math.MaxInt32, true, (*key).Hash),
	}
}

// Next returns the point whose next packet is wanted: the one of which fewer
// packets wait for their counterpart. Where the numbers are the same, and where half
// a window waits at both, the points take turns: if one ran ahead further, its
// packets would be given up before their counterparts come.
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

// A side is what is remembered of one point: its last packets, in a ring that
// grows up to the window.
type side struct {
	ring        []remembered // packet n is at n modulo its length, a power of two
	begin, end  uint64       // numbers of the packets in the ring, from 1; end is the next one's
	waiting     uint64       // of these, those without their counterpart
	first, last int64        // the times between which there were packets
}

// remembered is a packet that was seen at a point.
type remembered struct {
	time  int64
	delay int64  // of the pair, in the packet that completed it
	next  uint64 // the number of the next one in the queue of its group, 0 at the end
	group uint32
	class uint8 // traffic class
	state state
}

// state says whether the counterpart of a packet came.
type state uint8

const (
	waits     state = iota
	met             // it came, after this packet was seen
	completes       // it was there: delay is set
)

func (s *side) packetAt(n uint64) *remembered { return &s.ring[n&uint64(len(s.ring)-1)] }

// addPacket remembers a packet, and returns its number.
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

// A group is the remembered packets that nothing tells apart. Those that wait are
// all of one point, since one that comes takes the first that waits at the other.
type group struct {
	flow   *comparedFlow
	queue  Point     // the point of those that wait
	head   uint64    // the first that waits, 0 without
	last   [2]uint64 // by point, the packet that came last
	seen   [2]uint32 // by point, how many came
	live   [2]uint32 // by point, how many of these are remembered
	copies [2]uint32 // by point, how many came too soon behind another one to be repeats
	known  bool      // one was matched, or given up: any other that nobody has is a copy
}

// A groupKey is what the packets of a group have in common.
type groupKey struct {
	flow   uint64 // its number
	psn    uint32
	ident  uint16
	opcode bth.Opcode
}

func (k *groupKey) hash(seed uint64) uint64 {
	return hash.Mix(seed^k.flow, seed>>32^seed<<32^(uint64(k.psn)|uint64(k.ident)<<32|uint64(k.opcode)<<48))
}

// copyTime is within what a request or a READ response that comes again is a
// copy, where no Identification tells: a sender that repeats it takes longer.
const copyTime = int64(10 * time.Microsecond)

// Observe takes a packet that was captured at a point.
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
	packet := remembered{time: t, group: id, class: p.trafficClass}
	if n := g.last[at]; n >= s.begin && n > 0 && p.hasSequence() && max(t-s.packetAt(n).time, s.packetAt(n).time-t) <= copyTime {
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
		} else { // then the last that came waits too
			s.packetAt(g.last[at]).next = n
		}
	}
	g.last[at] = n
	g.seen[at]++
	g.live[at]++
	f.remembered++
}

// hasSequence says whether a packet has a PSN of its own, so that the same one again
// is a repeat or a copy. Acknowledgements and notifications say the same more
// than once.
func (p *Packet) hasSequence() bool {
	return p.kind == requestKind || p.kind == answerKind && roles[p.pkt.Opcode].message == MessageRead
}

// lookUpGroup returns the group of a packet, a new one if there was none.
func (c *Comparison) lookUpGroup(f *comparedFlow, p *Packet) (uint32, *group) {
	k := groupKey{f.number, p.pkt.PSN, p.ident, p.pkt.Opcode}
	hash := k.hash(c.groups.Seed)
	g, id := c.groups.Find(&k, hash)
	if g == nil {
		id = c.groups.Add(&k, hash, 0)
		g = c.groups.At(id)
		g.flow = f
	}
	return id, g
}

// forgetOldest makes room for a packet of a point: the oldest one is judged.
func (c *Comparison) forgetOldest(at Point) {
	s := &c.sides[at]
	r := s.packetAt(s.begin)
	s.begin++
	g := c.groups.At(r.group)
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

// countDelay takes the delay of a pair, if it is known to be the same packet.
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

// countMissing counts a packet that the other point does not have.
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

// Finish says that both captures are at their end: what still waits has no counterpart.
func (c *Comparison) Finish() {
	for i := range c.sides {
		s := &c.sides[i]
		for n := s.begin; n < s.end; n++ {
			if r := s.packetAt(n); r.state == completes {
				c.countDelay(c.groups.At(r.group), r)
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

// identifications say whether the Identifications that a flow's IPv4 packets have
// at a point tell them apart.
type identifications struct {
	variety
	psn    uint32 // of the packet before
	opcode bth.Opcode
}

func (i *identifications) observePacket(p *Packet) {
	if p.pkt.Flow.QP&overIPv4 == 0 || i.set && i.psn == p.pkt.PSN && i.opcode == p.pkt.Opcode && i.last == p.ident {
		return // of IPv6, or a copy, if anything
	}
	i.addIdent(p.ident)
	i.psn, i.opcode = p.pkt.PSN, p.pkt.Opcode
}
