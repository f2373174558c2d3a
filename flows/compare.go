package flows

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/rocev2"
)

// A Point is one of two places where the same traffic was captured.
type Point int

// The points.
const (
	A Point = iota
	B
)

// A Comparison finds the same packets in the captures of two points, by source,
// destination, queue pair, PSN and opcode, and says what happened between. It is
// not safe for concurrent use.
//
// Give it packets of both points by turns, as [Comparison.Next] asks for them:
// their clocks need not agree. A packet waits for its like until Window more of
// its point were seen: that bounds the memory.
type Comparison struct {
	window  int
	sides   [2]side
	flows   map[key]*compared
	ordered []*compared
}

// A side is what waits at one point.
type side struct {
	waiting map[packetKey][]waiting
	ring    []packetKey // in the order in which they came; a packet may be gone already
	seen    uint64
	n       int // waiting
	first   int64
	last    int64
}

// packetKey is what the same packet has at both points.
type packetKey struct {
	key    key
	psn    uint32
	opcode bth.Opcode
}

type waiting struct {
	at     int64
	number uint64 // of the packets of its side
	class  uint8  // traffic class
	copied bool   // its like was matched
}

// DefaultWindow is how many packets of a point may come before the like of one
// that waits.
const DefaultWindow = 1 << 17

// NewComparison returns a comparison with this window, DefaultWindow if 0.
func NewComparison(window int) *Comparison {
	if window <= 0 {
		window = DefaultWindow
	}
	c := &Comparison{window: window, flows: map[key]*compared{}}
	for i := range c.sides {
		c.sides[i] = side{waiting: map[packetKey][]waiting{}, ring: make([]packetKey, window)}
	}
	return c
}

// Next returns the point whose next packet is wanted: the one of which fewer
// packets wait.
func (c *Comparison) Next() Point {
	if c.sides[B].n < c.sides[A].n {
		return B
	}
	return A
}

// Compared is what became of a flow between two points. Packets are all with its
// addresses and DestQP: requests, answers and CNPs.
type Compared struct {
	rocev2.FlowKey
	Packets    [2]uint64 // by point
	Same       uint64    // packets that both have
	Lost       uint64    // of A, that B does not have
	Outside    uint64    // of the lost, those from before B's first packet or after its last
	Added      uint64    // of B, that A does not have
	Duplicated [2]uint64 // more copies than at the other point
	DSCP, ECN  Changes
	Delay      Delays // from A to B, as the clocks have it
}

// Changes counts how a field changed from A to B.
type Changes map[[2]uint8]uint64

// Delays are differences of times at B and at A; negative ones are in Before.
type Delays struct {
	After, Before Histogram
}

// Add counts a difference.
func (d *Delays) Add(delay time.Duration) {
	if delay < 0 {
		d.Before.Add(-delay)
	} else {
		d.After.Add(delay)
	}
}

// Samples returns how many differences were counted.
func (d *Delays) Samples() uint64 { return d.Before.n + d.After.n }

// Percentile returns the difference that this part of all are not above.
func (d *Delays) Percentile(p float64) time.Duration {
	n := float64(d.Samples())
	if below := float64(d.Before.n) / max(n, 1); p <= below && d.Before.n > 0 {
		return -d.Before.Percentile(1 - p/below + 1/float64(d.Before.n))
	} else if d.After.n > 0 {
		return d.After.Percentile((p - below) / (1 - below))
	}
	return 0
}

// Min and Max return the least and the greatest difference.
func (d *Delays) Min() time.Duration {
	if d.Before.n > 0 {
		return -d.Before.max
	}
	return d.After.min
}

// Max returns the greatest difference.
func (d *Delays) Max() time.Duration {
	if d.After.n > 0 {
		return d.After.max
	}
	return -d.Before.min
}

// compared is a Compared that grows.
type compared struct {
	Compared
	typical time.Duration // of the delays, roughly
	recent  [2]copies
}

// copies are the packets of a flow that were matched last, to know copies by.
type copies struct {
	kept [maxCopies]copied
	n    int
}

type copied struct {
	psn    uint32
	opcode bth.Opcode
	at     int64
	set    bool
}

const (
	maxCopies = 64
	// copyTime is within what the same packet again is a copy; a sender that
	// repeats it takes longer.
	copyTime = int64(10 * time.Microsecond)
)

// Observe takes up a packet that was captured at a point.
func (c *Comparison) Observe(at Point, p *Packet, now time.Time) {
	if p.kind < request || p.kind > ppfcKind {
		return
	}
	t := nanoseconds(now)
	s, other := &c.sides[at], &c.sides[1-at]
	if s.seen == 0 || t < s.first {
		s.first = t
	}
	s.last = max(s.last, t)
	s.seen++
	f := c.flow(&p.pkt)
	f.Packets[at]++
	k := packetKey{p.pkt, p.psn, p.opcode}
	if likes := other.waiting[k]; len(likes) > 0 {
		i := f.nearest(at, likes, t)
		like := likes[i]
		rest := other.take(k, likes, i)
		for i := range rest {
			rest := &rest[i]
			rest.copied = rest.copied || at == A || max(rest.at-like.at, like.at-rest.at) <= copyTime
		}
		f.same(at, k, p.trafficClass, t, &like)
		return
	}
	copied := at == B && f.recent[B].has(k, 0, 0) || at == A && f.recent[A].has(k, t, copyTime)
	c.wait(at, k, waiting{t, s.seen, p.trafficClass, copied})
}

func (c *Comparison) flow(k *key) *compared {
	f := c.flows[*k]
	if f == nil {
		f = &compared{Compared: Compared{FlowKey: k.flowKey()}}
		c.flows[*k] = f
		c.ordered = append(c.ordered, f)
	}
	return f
}

// nearest returns which of the likes took the time that packets typically take.
func (f *compared) nearest(at Point, likes []waiting, t int64) (best int) {
	off := func(i int) time.Duration {
		d := time.Duration(t - likes[i].at)
		if at == A {
			d = -d
		}
		return (d - f.typical).Abs()
	}
	for i := range likes {
		if off(i) < off(best) {
			best = i
		}
	}
	return best
}

// same takes up a packet that both points have.
func (f *compared) same(at Point, k packetKey, class uint8, t int64, like *waiting) {
	timeA, timeB, classA, classB := like.at, t, like.class, class
	if at == A {
		timeA, timeB, classA, classB = t, like.at, class, like.class
	}
	f.Same++
	delay := time.Duration(timeB - timeA)
	f.Delay.Add(delay)
	if f.typical == 0 {
		f.typical = delay
	}
	f.typical += (delay - f.typical) / 16
	f.DSCP.add(classA>>2, classB>>2)
	f.ECN.add(classA&3, classB&3)
	f.recent[A].add(k, timeA)
	f.recent[B].add(k, timeB)
}

func (c *Changes) add(from, to uint8) {
	if from == to {
		return
	}
	if *c == nil {
		*c = Changes{}
	}
	(*c)[[2]uint8{from, to}]++
}

func (c *copies) add(k packetKey, at int64) {
	c.kept[c.n%maxCopies] = copied{k.psn, k.opcode, at, true}
	c.n++
}

// has says whether such a packet was matched, within a time if that is above 0.
func (c *copies) has(k packetKey, at, within int64) bool {
	for i := range c.kept {
		x := &c.kept[i]
		if x.set && x.psn == k.psn && x.opcode == k.opcode && (within == 0 || max(at-x.at, x.at-at) <= within) {
			return true
		}
	}
	return false
}

// wait lets a packet wait. The one that had its place in the ring has waited for
// long enough.
func (c *Comparison) wait(at Point, k packetKey, w waiting) {
	s := &c.sides[at]
	place := &s.ring[w.number%uint64(c.window)]
	if w.number > uint64(c.window) {
		c.expire(at, *place, w.number-uint64(c.window))
	}
	*place = k
	s.waiting[k] = append(s.waiting[k], w)
	s.n++
}

// expire gives up a packet, if it still waits.
func (c *Comparison) expire(at Point, k packetKey, number uint64) {
	s := &c.sides[at]
	likes := s.waiting[k]
	for i := range likes {
		if likes[i].number <= number {
			c.missing(at, k, &likes[i])
			s.take(k, likes, i)
			return
		}
	}
}

// take takes one of the likes away and returns the others.
func (s *side) take(k packetKey, likes []waiting, i int) []waiting {
	s.n--
	if likes = slices.Delete(likes, i, i+1); len(likes) == 0 {
		delete(s.waiting, k)
	} else {
		s.waiting[k] = likes
	}
	return likes
}

// missing takes up a packet that the other point does not have.
func (c *Comparison) missing(at Point, k packetKey, w *waiting) {
	f := c.flow(&k.key)
	switch {
	case w.copied:
		f.Duplicated[at]++
	case at == B:
		f.Added++
	default:
		f.Lost++
		if b := &c.sides[B]; b.seen == 0 || w.at+int64(f.typical) < b.first || w.at+int64(f.typical) > b.last {
			f.Outside++
		}
	}
}

// Finish takes up that both captures are at their end: what still waits has no
// like.
func (c *Comparison) Finish() {
	for _, at := range [...]Point{A, B} {
		s := &c.sides[at]
		for k, likes := range s.waiting {
			for i := range likes {
				c.missing(at, k, &likes[i])
			}
		}
		clear(s.waiting)
		s.n = 0
	}
}

// Flows yields what became of each flow, those with the most losses and changes
// first.
func (c *Comparison) Flows() iter.Seq[*Compared] {
	return func(yield func(*Compared) bool) {
		slices.SortFunc(c.ordered, func(a, b *compared) int {
			return cmp.Or(cmp.Compare(b.trouble(), a.trouble()), a.FlowKey.Compare(b.FlowKey))
		})
		for _, f := range c.ordered {
			if !yield(&f.Compared) {
				return
			}
		}
	}
}

func (c *Compared) trouble() uint64 {
	return c.Lost + c.Added + c.Duplicated[A] + c.Duplicated[B] + c.DSCP.total() + c.ECN.total()
}

func (c Changes) total() (n uint64) {
	for _, changes := range c {
		n += changes
	}
	return n
}

// Total returns the sum of all flows. Its Delay is not known: packets go in both
// directions.
func (c *Comparison) Total() Compared {
	total := Compared{DSCP: Changes{}, ECN: Changes{}}
	for _, f := range c.ordered {
		for i := range f.Packets {
			total.Packets[i] += f.Packets[i]
			total.Duplicated[i] += f.Duplicated[i]
		}
		total.Same += f.Same
		total.Lost += f.Lost
		total.Outside += f.Outside
		total.Added += f.Added
		for change, n := range f.DSCP {
			total.DSCP[change] += n
		}
		for change, n := range f.ECN {
			total.ECN[change] += n
		}
	}
	return total
}

// Clocks is what the delays say of the clocks of two points.
type Clocks struct {
	Known  Known
	Offset time.Duration // how far B's is ahead, roughly, if Known is BothWays
	Delay  time.Duration // the least delay then, without the offset
}

// Known says how the relation of two clocks is known.
type Known int

// What there may be to know clocks by.
const (
	NotKnown Known = iota // no packet that both points have
	OneWay                // packets of one direction only: the clocks are taken on trust
	BothWays              // packets of both: what one gains by the offset, the other loses
)

// Clocks compares the delays of both directions, which a packet that comes back
// makes possible: with clocks that agree, packets of one direction come to B
// later, and those of the other earlier.
func (c *Comparison) Clocks() (clocks Clocks) {
	type road struct{ src, dst [16]byte }
	least := map[road]Delays{}
	for k, f := range c.flows {
		if f.Delay.Samples() > 0 {
			r := road{k.src, k.dst}
			all, ok := least[r]
			if !ok || f.Delay.Samples() > all.Samples() {
				least[r] = f.Delay
			}
		}
	}
	var best uint64
	for r, forth := range least {
		clocks.Known = max(clocks.Known, OneWay)
		back, ok := least[road{r.dst, r.src}]
		if !ok || forth.Percentile(0.5) < back.Percentile(0.5) {
			continue
		}
		if n := min(forth.Samples(), back.Samples()); n > best {
			best = n
			clocks.Known = BothWays
			clocks.Offset = (forth.Min() + back.Max()) / 2
			clocks.Delay = (forth.Min() - back.Max()) / 2
		}
	}
	return clocks
}
