package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

// findCNPUnheeded finds senders that do not slow down after CNPs.
//
// Evidence: a run of CNPs in quick succession, with the same rate at its end as at its beginning;
// see flows.Control.
//
// Counter-evidence: a lower rate after one of them; fewer CNPs than a sender may need after a long
// time without any; a rate so low that senders do not reduce it further. CNPs lost between the
// capture point and the sender cannot be seen, as the text says.
func findCNPUnheeded(v *view) {
	for _, g := range v.groupFlows(sourceOf, func(f *flows.Flow) bool {
		return f.Evidence.Control.Unheeded.Count > 0
	}) {
		var run flows.Sign
		var rates float64
		var shown []Frame
		for _, f := range g.flows {
			c := &f.Evidence.Control
			run = addSigns(run, c.Unheeded)
			rates += c.Rate
			shown = append(shown, Frame{c.Unheeded.First, "CNP"}, Frame{c.Unheeded.Last, "CNP"})
		}
		v.addVerdict(Verdict{
			Cause: CauseCNPUnheeded, Party: g.address.String(), Since: run.Since, Until: run.Until,
			Text: fmt.Sprintf("%v did not slow down: %s about its flows came within %s, from %s on, and after them it "+
				"still sent %s per flow. ECN is off there, or CNPs are lost on their way to it.", g.address,
				formatCount(run.Count, "CNP"), formatDuration(run.Until.Sub(run.Since)), formatStart(run),
				formatRate(rates/float64(len(g.flows)))),
			Next: "Turn on the reaction point (RP) for this priority on the sender, and check its rp_cnp_handled and " +
				"rp_cnp_ignored.",
			Frames: limitFrames(shown),
			Filter: joinAnd(filterAddress("dst", g.address), anyCNP),
		}, g.flows)
	}
}
