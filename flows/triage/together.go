package triage

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// spans are intervals of time, to find whether one of them overlaps another interval.
type spans struct {
	all    []span // sorted by the first call of overlaps
	sorted bool
}

// A span is an interval. latest is the latest end of this one and those before it.
type span struct{ since, until, latest time.Time }

func (s *spans) add(since, until time.Time) {
	s.all, s.sorted = append(s.all, span{since: since, until: until}), false
}

// overlaps reports whether an interval overlaps one of s, which may be nil.
func (s *spans) overlaps(since, until time.Time) bool {
	if s == nil {
		return false
	}
	if !s.sorted {
		slices.SortFunc(s.all, func(a, b span) int { return a.since.Compare(b.since) })
		var latest time.Time
		for i := range s.all {
			if one := &s.all[i]; i == 0 || one.until.After(latest) {
				latest = one.until
			}
			s.all[i].latest = latest
		}
		s.sorted = true
	}
	n := sort.Search(len(s.all), func(i int) bool { return s.all[i].since.After(until) })
	return n > 0 && !s.all[n-1].latest.Before(since)
}

// countTogether returns for each episode of each source the number of other sources that have an episode at
// most sameCongestion away from it. The episodes of a source are in order of time and do not overlap.
//
// A source has none if the episode lies in one of the gaps between its episodes. So this counts gaps: in order
// of their beginnings, by their ends.
func countTogether(ofSources [][]flows.Episode) (near []int) {
	for _, own := range ofSources {
		if slices.ContainsFunc(own, func(e flows.Episode) bool { return e.Until.Before(e.Since) }) {
			return countEachTogether(ofSources)
		}
	}
	type interval struct {
		from, to int64
		own      bool // an episode, extended by sameCongestion; otherwise a gap
		at       int  // index of the episode in near
	}
	const forever = 1<<63 - 1
	var all []interval
	for _, own := range ofSources {
		previous := int64(-forever)
		for _, e := range own {
			from, to := e.Since.UnixNano(), e.Until.UnixNano()
			all = append(all,
				interval{from - int64(sameCongestion), to + int64(sameCongestion), true, len(near)},
				interval{from: previous, to: from})
			near = append(near, 0)
			previous = to
		}
		all = append(all, interval{from: previous, to: forever})
	}
	ends := make([]int64, 0, len(all))
	for _, one := range all {
		ends = append(ends, one.to)
	}
	slices.Sort(ends)
	// Gaps that begin at the same time as an episode do not contain it.
	slices.SortFunc(all, func(a, b interval) int {
		if c := cmp.Compare(a.from, b.from); c != 0 || a.own == b.own {
			return c
		} else if a.own {
			return -1
		}
		return 1
	})
	gaps := make(fenwick, len(ends)+1) // gaps that have begun, by their ends
	begun := 0
	for _, one := range all {
		if !one.own {
			gaps.add(countUpTo(ends, one.to))
			begun++
			continue
		}
		ended := gaps.sumUpTo(countUpTo(ends, one.to)) // or end with the episode
		near[one.at] = len(ofSources) - 1 - (begun - ended)
	}
	return near
}

// countUpTo returns the number of sorted values that are at most v.
func countUpTo(sorted []int64, v int64) int {
	return sort.Search(len(sorted), func(i int) bool { return sorted[i] > v })
}

// A fenwick tree counts numbers from 1 on.
type fenwick []int

func (f fenwick) add(n int) {
	for ; n < len(f); n += n & -n {
		f[n]++
	}
}

// sumUpTo returns the count of the numbers from 1 to n.
func (f fenwick) sumUpTo(n int) (sum int) {
	for ; n > 0; n -= n & -n {
		sum += f[n]
	}
	return sum
}

// countEachTogether is countTogether if the clock was set back, so that an episode ends before it begins.
func countEachTogether(ofSources [][]flows.Episode) (near []int) {
	for i, own := range ofSources {
		for _, e := range own {
			n := 0
			for j, others := range ofSources {
				if i != j && slices.ContainsFunc(others, func(o flows.Episode) bool {
					return spansOverlap(o.Since.Add(-sameCongestion), o.Until.Add(sameCongestion), e.Since, e.Until)
				}) {
					n++
				}
			}
			near = append(near, n)
		}
	}
	return near
}
