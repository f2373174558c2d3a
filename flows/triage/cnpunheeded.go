package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

// findCNPUnheeded: CNPs came about a flow, and its sender did not slow down.
//
// Evidence: a run of CNPs, each soon after the one before, and at its end the flow is as fast as at its beginning; see
// flows.Control.
//
// Counter-evidence: a fall of the rate behind one of them; fewer CNPs than a sender may need that has seen
// none for long; a rate so low that senders slow down no more. CNPs that are lost between here and the sender are not
// seen, and the sentence says so.
func findCNPUnheeded(v *view) {
	for _, g := range v.groupFlows(sourceOf, func(f *flows.Flow) bool { return f.Evidence.Control.Unheeded.Count > 0 }) {
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
			Cause: CauseCNPUnheeded, Party: g.of.String(), Since: run.Since, Until: run.Until,
			Text: fmt.Sprintf("%v did not slow down: %s about its flows came within %s from %s on, and behind them it "+
				"still sent %s a flow. Its ECN is off, or CNPs are lost between here and it.", g.of,
				formatCount(run.Count, "CNP"), formatDuration(run.Until.Sub(run.Since)), formatStart(run),
				formatRate(rates/float64(len(g.flows)))),
			Next: "Turn on the reaction point (RP) for this priority on the sender; see its rp_cnp_handled and " +
				"rp_cnp_ignored.",
			Frames: limitFrames(shown),
			Filter: joinAnd(filterAddress("dst", g.of), anyCNP),
		}, g.flows)
	}
}
