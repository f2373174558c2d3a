package triage

import (
	"slices"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// mergeable is the constraint of values that merge with others.
type mergeable[V any] interface {
	*V
	merge(*V)
}

// mergeOverlapping returns for each interval the merged values of all intervals that overlap it, which includes its
// own value unless the clock was set back within it.
//
// An interval overlaps another one if it begins before that ends, and ends after that begins. So intervals are added
// in order of their beginnings to a Fenwick tree, which has them in descending order of their ends.
func mergeOverlapping[V any, P mergeable[V]](all []flows.Sign, values []V) []V {
	bySince, byUntil := make([]int, len(all)), make([]int, len(all)) // indexes in all
	for i := range all {
		bySince[i], byUntil[i] = i, i
	}
	slices.SortFunc(bySince, func(a, b int) int { return all[a].Since.Compare(all[b].Since) })
	slices.SortFunc(byUntil, func(a, b int) int { return all[a].Until.Compare(all[b].Until) })
	// countFrom returns the number of intervals that end at t or later.
	countFrom := func(t time.Time) int {
		n, _ := slices.BinarySearchFunc(byUntil, t, func(i int, t time.Time) int { return all[i].Until.Compare(t) })
		return len(all) - n
	}
	tree, out := make([]V, len(all)+1), make([]V, len(all))
	added := 0
	for _, one := range byUntil {
		for ; added < len(all) && !all[bySince[added]].Since.After(all[one].Until); added++ {
			i := bySince[added]
			for n := countFrom(all[i].Until); n < len(tree); n += n & -n {
				P(&tree[n]).merge(&values[i])
			}
		}
		for n := countFrom(all[one].Since); n > 0; n -= n & -n {
			P(&out[one]).merge(&tree[n])
		}
	}
	return out
}

// A highest has the highest positive value of all sources, and that of the other sources.
type highest struct {
	source        int // with the highest value; 0 for none
	value, others float64
}

func (h *highest) merge(o *highest) {
	best := *h
	if o.value > h.value {
		best = *o
	}
	best.others = max(h.valueWithout(best.source), o.valueWithout(best.source))
	*h = best
}

// valueWithout returns the highest value of all sources except one, or 0.
func (h *highest) valueWithout(source int) float64 {
	if source == h.source {
		return h.others
	}
	return h.value
}

// someSources are at most three different sources, each at least 1: enough to know whether there are two besides
// any source.
type someSources [3]int

func (s *someSources) merge(o *someSources) {
	for _, source := range o {
		for i := range s {
			if s[i] == source || s[i] == 0 {
				s[i] = source
				break
			}
		}
	}
}

// countWithout returns the number of sources except one.
func (s *someSources) countWithout(source int) (n int) {
	for _, one := range s {
		if one != 0 && one != source {
			n++
		}
	}
	return n
}
