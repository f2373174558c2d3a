package triage

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
)

// rules are all rules. Those for symptoms come last, because they leave out flows with a known
// cause.
var rules = []rule{
	{find: findPauseStorm}, {find: findIncast}, {find: findOnePath}, {findCNPMissing, true}, {findCNPUnheeded, true},
	{find: findNotECNCapable}, {findOtherDSCP, true}, {find: findWrongICRC},
	{findMTU, true}, {findPathDown, true}, {find: findTooManyNotices}, {find: findNotReady},
	{findGaveUp, true}, {findReordered, true}, {findLosses, true}, {find: findCongested},
	{find: findRefused}, {find: findTrimmed}, {find: findDiscarded}, {find: findCorrupt}, {findNotCaptured, true},
}

// A rule finds one cause or symptom.
type rule struct {
	find func(*view)
	// needsAll: it judges losses, retransmissions, or missing answers, which a sample of the packets does not
	// show.
	needsAll bool
}

// Explain returns the verdicts about a snapshot. Verdicts about a link come first, then causes, then
// symptoms, and in each group those that affect the most octets. Without [flows.Config.Evidence] it
// returns verdicts about links only. It returns none if the table has evicted flows (Snapshot.Evicted),
// because these could have excluded a cause.
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
	joinBursts(v)
	slices.SortStableFunc(v.verdicts, func(a, b Verdict) int {
		return cmp.Or(compareBool(!a.Cause.isAboutLink(), !b.Cause.isAboutLink()),
			compareBool(a.Cause.IsSymptom(), b.Cause.IsSymptom()), cmp.Compare(b.Octets, a.Octets),
			cmp.Compare(a.Cause, b.Cause), cmp.Compare(len(b.Flows), len(a.Flows)))
	})
	v.moveUnheeded()
	return v.verdicts
}

// moveUnheeded moves findings about senders that ignore CNPs before those about congestion of their flows, which
// lasts because of them, and names the sender there.
func (v *view) moveUnheeded() {
	for i := range v.verdicts {
		u := v.verdicts[i]
		if u.Cause != CauseCNPUnheeded {
			continue
		}
		at := slices.IndexFunc(v.verdicts[:i], func(o Verdict) bool {
			return o.Cause == CauseIncast && slices.ContainsFunc(o.Flows, func(k rocev2.FlowKey) bool {
				return slices.Contains(u.Flows, k)
			})
		})
		if at < 0 {
			continue
		}
		v.verdicts[at].Text += fmt.Sprintf(" One of them, %v, did not slow down after its CNPs.", u.Flows[0].Src)
		copy(v.verdicts[at+1:i+1], v.verdicts[at:i])
		v.verdicts[at] = u
	}
}

// compareBool compares two conditions; false comes first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
