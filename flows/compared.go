package flows

import (
	"cmp"
	"slices"
	"time"

	"github.com/rocecn/rocecn/rocev2"
)

// Compared is the comparison result of one flow: all packets from its source to its destination and
// DestQP. These are requests, and answers and CNPs about the other direction.
type Compared struct {
	rocev2.FlowKey
	Packets    [2]uint64 // by point
	Same       uint64    // packets captured at both points
	Lost       uint64    // packets captured at A only
	Outside    uint64    // packets of Lost from before B's first packet or after its last
	Added      uint64    // packets captured at B only, including those lost on the way from B to A
	Duplicated [2]uint64 // copies made by the network, counted for the point that has more of them
	DSCP, ECN  Rewrites  // changes of the DSCP, and of the ECN in effect (RFC 6040)
	Delay      Delays    // from A to B, by the clocks of the points
}

// Rewrites counts packets of which a field changed, by its values at A and at B.
type Rewrites map[[2]uint8]uint64

func (c *Rewrites) addChange(from, to uint8, n uint64) {
	if from == to {
		return
	}
	if *c == nil {
		*c = Rewrites{}
	}
	(*c)[[2]uint8{from, to}] += n
}

func (c Rewrites) sumChanges() (n uint64) {
	for _, changes := range c {
		n += changes
	}
	return n
}

// comparedFlow is the state of a Compared.
type comparedFlow struct {
	Compared
	number     uint64        // sequence number of the flow
	typical    time.Duration // moving average of the delays
	ids        [2]identifications
	remembered uint64 // number of remembered packets
	used       bool   // seen again since the last eviction sweep
}

// hasIdentifications reports whether Identifications distinguish the flow's packets.
func (f *comparedFlow) hasIdentifications() bool {
	a, b := &f.ids[PointA], &f.ids[PointB]
	return a.other+b.other > a.same+b.same
}

// countMatch counts a packet captured at both points, with its traffic classes.
func (f *comparedFlow) countMatch(classA, classB uint8) {
	f.Same++
	f.DSCP.addChange(classA>>2, classB>>2, 1)
	f.ECN.addChange(classA&3, classB&3, 1)
}

// addCounts adds the counts of o, without its delays.
func (f *Compared) addCounts(o *Compared) {
	for i := range f.Packets {
		f.Packets[i] += o.Packets[i]
		f.Duplicated[i] += o.Duplicated[i]
	}
	f.Same += o.Same
	f.Lost += o.Lost
	f.Outside += o.Outside
	f.Added += o.Added
	for c, n := range o.DSCP {
		f.DSCP.addChange(c[0], c[1], n)
	}
	for c, n := range o.ECN {
		f.ECN.addChange(c[0], c[1], n)
	}
}

// lookUpFlow returns the flow of a key, adding it if needed.
func (c *Comparison) lookUpFlow(k *key) *comparedFlow {
	hash := k.Hash(c.flows.Seed)
	f, _ := c.flows.Find(k, hash)
	if f != nil {
		f.used = true
		return f
	}
	if c.flows.Len() >= c.maxFlows {
		c.evictFlows()
	}
	f = c.flows.Value(c.flows.Add(k, hash, 0))
	c.numbers++
	f.FlowKey, f.number = k.FlowKey(), c.numbers
	return f
}

// evictFlows evicts flows without remembered packets that were not seen since the last sweep. It
// checks eight flows at most and stops once the number is within the limit.
func (c *Comparison) evictFlows() {
	for range 8 {
		id := c.flows.Victim(0, 1, func(id uint32) bool {
			f := c.flows.Value(id)
			spared := f.used || f.remembered > 0
			f.used = false
			return spared
		})
		if id == 0 {
			continue
		}
		c.evicted.addCounts(&c.flows.Value(id).Compared)
		c.evictedFlows++
		c.flows.Remove(id)
		if c.flows.Len() < c.maxFlows {
			return
		}
	}
}

// Evicted returns the number of evicted flows. Their counts are part of Total.
func (c *Comparison) Evicted() uint64 { return c.evictedFlows }

// Flows returns the result of each flow so far, the most losses and changes first. The values
// change with further packets.
func (c *Comparison) Flows() []*Compared {
	all := make([]*Compared, 0, c.flows.Len())
	for id := range c.flows.All() {
		all = append(all, &c.flows.Value(id).Compared)
	}
	slices.SortFunc(all, func(a, b *Compared) int {
		return cmp.Or(cmp.Compare(b.countChanges(), a.countChanges()), a.FlowKey.Compare(b.FlowKey))
	})
	return all
}

func (f *Compared) countChanges() uint64 {
	return f.Lost + f.Added + f.Duplicated[PointA] + f.Duplicated[PointB] + f.DSCP.sumChanges() + f.ECN.sumChanges()
}

// Total returns the sum of all flows, evicted ones included. It has no Delay, because
// the clock offset is in the delays of the two directions with opposite signs.
func (c *Comparison) Total() Compared {
	var total Compared
	total.addCounts(&c.evicted.Compared)
	for id := range c.flows.All() {
		total.addCounts(&c.flows.Value(id).Compared)
	}
	return total
}
