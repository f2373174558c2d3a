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

// maxNamed is the number of senders that a finding about congestion names because they ignore CNPs.
const maxNamed = 3

// moveUnheeded moves findings about senders that ignore CNPs before those about congestion of their flows, which
// lasts because of them, and names the senders there.
func (v *view) moveUnheeded() {
	first := map[rocev2.FlowKey]int{} // findings about congestion
	for i := range v.verdicts {
		if v.verdicts[i].Cause != CauseIncast {
			continue
		}
		for _, k := range v.verdicts[i].Flows {
			if _, known := first[k]; !known {
				first[k] = i
			}
		}
	}
	before := map[int][]int{} // findings to be moved, by those before which they are moved
	moved := make([]bool, len(v.verdicts))
	for i := range v.verdicts {
		if v.verdicts[i].Cause != CauseCNPUnheeded {
			continue
		}
		to := i
		for _, k := range v.verdicts[i].Flows {
			if at, known := first[k]; known {
				to = min(to, at)
			}
		}
		if to < i {
			before[to], moved[i] = append(before[to], i), true
		}
	}
	if len(before) == 0 {
		return
	}
	ordered := make([]Verdict, 0, len(v.verdicts))
	for i, one := range v.verdicts {
		if moved[i] {
			continue
		}
		for n, j := range before[i] {
			u := v.verdicts[j]
			ordered = append(ordered, u)
			if n < maxNamed {
				one.Text += fmt.Sprintf(" One of them, %v, did not slow down after its CNPs.", u.Flows[0].Src)
			}
		}
		if more := len(before[i]) - maxNamed; more > 0 {
			one.Text += fmt.Sprintf(" Nor did %s.", formatCount(more, "other sender"))
		}
		ordered = append(ordered, one)
	}
	v.verdicts = ordered
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
