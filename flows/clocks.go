package flows

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// Clocks is the relation between the clocks of two capture points, estimated from delays.
type Clocks struct {
	Basis  ClockBasis
	Offset time.Duration // approximate lead of B's clock over A's, if Basis is ClocksBothWays
	Delay  time.Duration // minimum delay without the offset, if Basis is ClocksBothWays
}

// ClockBasis is the kind of evidence for the relation of two clocks.
type ClockBasis uint8

// The kinds of evidence.
const (
	ClocksUnknown  ClockBasis = iota // no packet was captured at both points
	ClocksOneWay                     // packets of one direction only: the offset cannot be separated from the delay
	ClocksBothWays                   // packets of both directions: the offset cancels out
)

var clockBasisNames = [...]string{"no", "one way", "both ways"}

// String returns "no", "one way" or "both ways".
func (k ClockBasis) String() string { return enumtext.Name(k, clockBasisNames[:], "Known") }

// Clocks estimates the clock offset from the delays of both directions: a packet from A to B is at B
// later than at A, and one from B to A earlier. The offset is that of the pair of addresses with the
// most packets.
func (c *Comparison) Clocks() (clocks Clocks) {
	type direction struct{ src, dst [16]byte }
	type delays struct {
		samples, most uint64
		min, max      time.Duration
		middle        time.Duration // median of the flow with the most samples
	}
	directions := map[direction]delays{}
	for id := range c.flows.All() {
		d := &c.flows.Value(id).Delay
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
	}) { // fixed order: the first of equal pairs counts
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
