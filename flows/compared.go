package flows

import (
	"cmp"
	"slices"
	"time"

	"github.com/rocecn/rocecn/rocev2"
)

// Compared is what became of a flow between two points. Packets are all with its
// addresses and DestQP: requests, answers and CNPs.
type Compared struct {
	rocev2.FlowKey
	Packets    [2]uint64 // by point
	Same       uint64    // packets that both have
	Lost       uint64    // of A, that B does not have
	Outside    uint64    // of the lost, those from before B's first packet or after its last
	Added      uint64    // of B, that A does not have: those lost on the way from B to A, too
	Duplicated [2]uint64 // copies that a network made, more than at the other point
	DSCP, ECN  Rewrites
	Delay      Delays // from A to B, as the clocks have it
}

// Rewrites counts how a field changed from A to B.
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

// comparedFlow is a Compared that grows.
type comparedFlow struct {
	Compared
	number     uint64        // of all flows that there were
	typical    time.Duration // of the delays, roughly
	ids        [2]identifications
	remembered uint64 // packets
	used       bool   // seen again since the eviction came by
}

// hasIdentifications says whether Identifications tell the flow's packets apart.
func (f *comparedFlow) hasIdentifications() bool {
	a, b := &f.ids[PointA], &f.ids[PointB]
	return a.other+b.other > a.same+b.same
}

// countMatch counts a packet that both points have, with its traffic classes.
func (f *comparedFlow) countMatch(classA, classB uint8) {
	f.Same++
	f.DSCP.addChange(classA>>2, classB>>2, 1)
	f.ECN.addChange(classA&3, classB&3, 1)
}

// addCounts adds what was counted of another flow, but for delays.
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

// lookUpFlow returns the flow of a key, a new one if there was none.
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
	f = c.flows.At(c.flows.Add(k, hash, 0))
	c.numbers++
	f.FlowKey, f.number = k.FlowKey(), c.numbers
	return f
}

// evictFlows gives up flows that were not seen again since it came by before, and of
// which no packet is remembered. It looks at a few at a time, and gives up more
// than one where there are more than there should be.
func (c *Comparison) evictFlows() {
	for range 8 {
		id := c.flows.Victim(0, 1, func(id uint32) bool {
			f := c.flows.At(id)
			spared := f.used || f.remembered > 0
			f.used = false
			return spared
		})
		if id == 0 {
			continue
		}
		c.evicted.addCounts(&c.flows.At(id).Compared)
		c.evictedFlows++
		c.flows.Remove(id)
		if c.flows.Len() < c.maxFlows {
			return
		}
	}
}

// Evicted returns how many flows there was no room for. Total counts what became
// of their packets.
func (c *Comparison) Evicted() uint64 { return c.evictedFlows }

// Flows returns what became of each flow so far, those with the most losses and
// changes first. Further packets change what the pointers point to.
func (c *Comparison) Flows() []*Compared {
	all := make([]*Compared, 0, c.flows.Len())
	for id := range c.flows.All() {
		all = append(all, &c.flows.At(id).Compared)
	}
	slices.SortFunc(all, func(a, b *Compared) int {
		return cmp.Or(cmp.Compare(b.countChanges(), a.countChanges()), a.FlowKey.Compare(b.FlowKey))
	})
	return all
}

func (f *Compared) countChanges() uint64 {
	return f.Lost + f.Added + f.Duplicated[PointA] + f.Duplicated[PointB] + f.DSCP.sumChanges() + f.ECN.sumChanges()
}

// Total returns the sum of all flows. Its Delay is not known: packets go in both
// directions.
func (c *Comparison) Total() Compared {
	var total Compared
	total.addCounts(&c.evicted.Compared)
	for id := range c.flows.All() {
		total.addCounts(&c.flows.At(id).Compared)
	}
	return total
}
