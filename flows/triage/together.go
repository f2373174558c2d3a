package triage

import (
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
// If an episode is near several ones of a source, it is also near all of them between the first and the last. Subtract
// each pair of successive episodes of which both are near it: of these pairs the interval from the start of the second
// to the end of the first overlaps it.
func countTogether(ofSources [][]flows.Episode) (near []int) {
	var all []flows.Sign
	var values []counter
	add := func(since, until time.Time, n counter) {
		all = append(all, flows.Sign{Since: since.Add(-sameCongestion / 2), Until: until.Add(sameCongestion / 2)})
		values = append(values, n)
	}
	for _, own := range ofSources {
		for _, e := range own {
			add(e.Since, e.Until, 1)
		}
	}
	episodes := len(all)
	for _, own := range ofSources {
		for i := 1; i < len(own); i++ {
			add(own[i].Since, own[i-1].Until, -1)
		}
	}
	for _, n := range mergeOverlapping(all, values)[:episodes] {
		near = append(near, int(n)-1) // without its own source
	}
	return near
}

// A counter is a number of intervals.
type counter int

func (c *counter) merge(o *counter) { *c += *o }
