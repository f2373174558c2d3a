package triage

import (
	"cmp"
	"slices"

	"github.com/rocecn/rocecn/flows"
)

// rules are all rules. Those about symptoms come last: they leave out what others explained.
var rules = []func(*view){
	findPauseStorm, findIncast, findOnePath, findCNPMissing, findCNPUnheeded, findNotECNCapable, findOtherDSCP, findTooManyNotices, findNotReady, findStorm,
	findTimedOut, findReordered,
	findLost, findCongested, findRefused, findCorrupt, findNotCaptured,
}

// Explain returns the verdicts about what a table has seen: causes before symptoms, of each kind that about the most
// flows first. Without Config.Evidence there are none, nor from a table that had to give up flows (Snapshot.Evicted):
// what it forgot may be what speaks against them.
func Explain(s *flows.Snapshot) []Verdict {
	if s.Evicted.Flows > 0 {
		return nil
	}
	v := newView(s)
	for _, rule := range rules {
		rule(v)
	}
	slices.SortStableFunc(v.verdicts, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(a.Cause, b.Cause), cmp.Compare(len(b.Flows), len(a.Flows)))
	})
	return v.verdicts
}
