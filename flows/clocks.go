package flows

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// Clocks is what the delays say of the clocks of two points.
type Clocks struct {
	Basis  ClockBasis
	Offset time.Duration // how far B's is ahead, roughly, if Known is BothWays
	Delay  time.Duration // the least delay then, without the offset
}

// ClockBasis says how the relation of two clocks is known.
type ClockBasis uint8

// What the relation of two clocks is known by.
const (
	ClocksUnknown  ClockBasis = iota // no packet that both points have
	ClocksOneWay                     // packets of one direction only: the clocks are taken on trust
	ClocksBothWays                   // packets of both: what one gains by the offset, the other loses
)

var clockBasisNames = [...]string{"no", "one way", "both ways"}

// String returns no, one way or both ways.
func (k ClockBasis) String() string { return enumtext.Name(k, clockBasisNames[:], "Known") }

// Clocks compares the delays of both directions, which a packet that comes back
// makes possible: with clocks that agree, packets of one direction come to B
// later, and those of the other earlier.
func (c *Comparison) Clocks() (clocks Clocks) {
	type direction struct{ src, dst [16]byte }
	type delays struct {
		samples, most uint64
		min, max      time.Duration
		middle        time.Duration // the median of the flow with the most
	}
	directions := map[direction]delays{}
	for id := range c.flows.All() {
		d := &c.flows.At(id).Delay
		if d.Count() == 0 {
			continue
		}
		k := c.flows.Key(id)
		r := direction{k.Src, k.Dst}
		all, ok := directions[r]
		if !ok {
			all.min, all.max = d.Min(), d.Max()
		}
		all.samples += d.Count()
		all.min, all.max = min(all.min, d.Min()), max(all.max, d.Max())
		if d.Count() > all.most {
			all.most, all.middle = d.Count(), d.Percentile(0.5)
		}
		directions[r] = all
	}
	var best uint64
	for _, r := range slices.SortedFunc(maps.Keys(directions), func(a, b direction) int {
		return cmp.Or(bytes.Compare(a.src[:], b.src[:]), bytes.Compare(a.dst[:], b.dst[:]))
	}) { // in an order of their own: of equal ones the first counts
		forth := directions[r]
		clocks.Basis = max(clocks.Basis, ClocksOneWay)
		back, ok := directions[direction{r.dst, r.src}]
		if !ok || forth.middle < back.middle {
			continue
		}
		if n := min(forth.samples, back.samples); n > best {
			best = n
			clocks.Basis = ClocksBothWays
			clocks.Offset = (forth.min + back.max) / 2
			clocks.Delay = (forth.min - back.max) / 2
		}
	}
	return clocks
}
