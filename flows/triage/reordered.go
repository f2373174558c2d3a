package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

// findReordered: packets overtook one another, and none was lost.
//
// Evidence: requests that filled gaps before anybody asked for them, three or more of a flow.
//
// Counter-evidence: a gap that was filled after a NAK, a repeat after a silence, more than one in eight that stayed
// missing: then what comes late may be sent again. At the two ends of a capture some may be on the other side.
func findReordered(v *view) {
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		e := f.Evidence
		return e.Sign(flows.SignReordered).Count >= 3 && e.Sign(flows.SignRetransmitted).Count == 0 &&
			(f.PSN.NeverSeen()+f.Causes.Timeout)*8 <= f.PSN.Late && f.Evidence.MaxTimeout < minTimeout
	}) {
		late, total := sumSigns(g.flows, flows.SignReordered), sumSigns(g.flows, flows.SignRequest)
		sprays, repeats := 0, uint64(0)
		for _, f := range g.flows {
			if f.Varies.SrcPort {
				sprays++
			}
			repeats += f.Causes.NAK
		}
		why := "Their UDP source port is the same: something on the way sends the packets of one flow several ways."
		if sprays > 0 {
			why = "The sender sprays them: their UDP source port varies."
		}
		if repeats > 0 {
			why += fmt.Sprintf(" The receiver took it for loss: %s sent again for nothing.", formatCountWas(repeats, "packet"))
		}
		v.addVerdict(Verdict{
			Cause: CauseReordered, Since: late.Since, Until: late.Until,
			Text: fmt.Sprintf("%d of %s to %v came out of order from %s on, and none had to be sent again. "+
				"%s", late.Count,
				formatCount(total.Count, "packet"), g.of, formatStart(late), why),
			Next: "That is as it should be where packets are sprayed and the receiver can put them in order; else " +
				"turn the spraying off for this traffic.",
			Frames: evidenceFrames(g.flows, flows.SignReordered),
			Filter: joinAnd(filterRequests(g.flows), filterFrames(late)),
		}, g.flows)
	}
}
