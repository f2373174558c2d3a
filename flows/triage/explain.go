package triage

import (
	"cmp"
	"slices"

	"github.com/rocecn/rocecn/flows"
)

// rules are all rules. Those for symptoms come last, because they leave out flows with a known
// cause.
var rules = []rule{
	{find: findPauseStorm}, {find: findIncast}, {find: findOnePath}, {findCNPMissing, true}, {findCNPUnheeded, true},
	{find: findNotECNCapable}, {findOtherDSCP, true}, {find: findTooManyNotices}, {find: findNotReady},
	{findStorm, true}, {findTimedOut, true}, {findReordered, true}, {findLost, true}, {find: findCongested},
	{find: findRefused}, {find: findCorrupt}, {findNotCaptured, true},
}

// A rule finds one cause or symptom.
type rule struct {
	find func(*view)
	// needsAll: it judges losses, retransmissions, or missing answers, which a sample of the packets does not
	// show.
	needsAll bool
}

// Explain returns the verdicts about a snapshot: causes before symptoms, and those about the most
// flows first. It returns none without Config.Evidence, or if the table has evicted flows
// (Snapshot.Evicted), because those may have been counter-evidence.
func Explain(s *flows.Snapshot) []Verdict {
	if s.Evicted.Flows > 0 {
		return nil
	}
	v := newView(s)
	for _, r := range rules {
		if s.Capture.Sampled == 0 || !r.needsAll {
			r.find(v)
		}
	}
	slices.SortStableFunc(v.verdicts, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(a.Cause, b.Cause), cmp.Compare(len(b.Flows), len(a.Flows)))
	})
	return v.verdicts
}
