package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

// reordered: packets overtook one another, and none was lost.
//
// Evidence: requests that filled gaps before anybody asked for them, three or more of a flow.
//
// Counter-evidence: a gap that was filled after a NAK, a repeat after a silence, more than one in eight that stayed
// missing: then what comes late may be sent again. At the two ends of a capture some may be on the other side.
func reordered(v *view) {
	for _, g := range v.each(destination, func(f *flows.Flow) bool {
		e := f.Evidence
		return e.Sign(flows.SignLate).Count >= 3 && e.Sign(flows.SignResent).Count == 0 &&
			(f.PSN.StayedMissing()+f.Causes.Timeout)*8 <= f.PSN.Late && f.Evidence.MostSilence < fewSilence
	}) {
		late, total := sum(g.flows, flows.SignLate), sum(g.flows, flows.SignRequest)
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
			why += fmt.Sprintf(" The receiver took it for loss: %s sent again for nothing.", was(repeats, "packet"))
		}
		v.say(Verdict{
			Cause: Reordered, Since: late.Since, Until: late.Until,
			Text: fmt.Sprintf("%d of %s to %v came out of order from %s on, and none had to be sent again. "+
				"%s", late.Count,
				count(total.Count, "packet"), g.of, clock(late), why),
			Next: "That is as it should be where packets are sprayed and the receiver can put them in order; else " +
				"turn the spraying off for this traffic.",
			Frames: frames(g.flows, flows.SignLate),
			Filter: and(requests(g.flows), between(late)),
		}, g.flows)
	}
}
