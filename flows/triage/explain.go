package triage

import (
	"cmp"
	"slices"

	"github.com/rocecn/rocecn/flows"
)

// rules are all rules. Those for symptoms come last, because they leave out flows with a known
// cause.
var rules = []func(*view){
	findPauseStorm, findIncast, findOnePath, findCNPMissing, findCNPUnheeded, findNotECNCapable, findOtherDSCP,
	findTooManyNotices, findNotReady, findStorm,
	findTimedOut, findReordered,
	findLost, findCongested, findRefused, findCorrupt, findNotCaptured,
}

// Explain returns the verdicts about a snapshot: causes before symptoms, and those about the most
// flows first. It returns none without Config.Evidence, or if the table has evicted flows
// (Snapshot.Evicted), because those may have been counter-evidence.
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
