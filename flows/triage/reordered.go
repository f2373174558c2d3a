package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

// findReordered finds flows with reordered packets and without losses.
//
// Evidence: at least three requests of a flow that filled gaps before a NAK asked for them, or after it
// with an Identification that shows that they were sent before the packets after the gap.
//
// Late packets may be retransmissions if more than one in eight gaps was filled after a NAK without
// such an Identification, or never; a few may be missing at the start and the end of a capture. Timeouts
// show a loss unless the receiver answered each copy of these requests.
func findReordered(v *view) {
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		e := f.Evidence
		return e.Sign(flows.SignReordered).Count >= 3 &&
			(f.PSN.NeverSeen()+e.Sign(flows.SignRetransmitted).Count)*8 <= f.PSN.Late &&
			(longestWait(f) < minTimeout || f.Causes.Spurious*8 >= f.Causes.Timeout*7)
	}) {
		late, total := sumSigns(g.flows, flows.SignReordered), sumSigns(g.flows, flows.SignRequest)
		sprays, retransmitted := 0, uint64(0)
		for _, f := range g.flows {
			if f.Varies.SrcPort {
				sprays++
			}
			retransmitted += f.Causes.NAK + f.Causes.Timeout
		}
		reason := "Their UDP source port is constant: a node on the path sends packets of one flow over several paths."
		if sprays > 0 {
			reason = "The sender sprays them: their UDP source port varies."
		}
		if retransmitted > 0 {
			reason += fmt.Sprintf(" The receiver mistook it for loss: %s retransmitted without need.",
				formatCountWas(retransmitted, "packet"))
		}
		v.addVerdict(Verdict{
			Cause: CauseReordered, Since: late.Since, Until: late.Until,
			Excluded: []string{"loss: the packets of the gaps arrived"},
			Text: fmt.Sprintf("%d of %s to %v were reordered, from %s on, and none of them was lost. %s",
				late.Count, formatCount(total.Count, "packet"), g.address, formatStart(late), reason),
			Next: "This is normal if packets are sprayed and the receiver can reorder them; otherwise turn off " +
				"spraying for this traffic.",
			Frames: evidenceFrames(g.flows, flows.SignReordered),
			Filter: joinAnd(filterRequests(g.flows), filterFrames(late)),
		}, g.flows)
	}
}
