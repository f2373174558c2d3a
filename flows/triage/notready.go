package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

// findNotReady finds receivers without a posted receive for a message.
//
// Evidence: RNR NAKs from the receiver, or retransmissions after them. There is no
// counter-evidence.
func findNotReady(v *view) {
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return f.Evidence.Sign(flows.SignRNR).Count > 0 && f.RNRNAKs+f.Causes.RNR > 0
	}) {
		naks, retransmitted := sumSigns(g.flows, flows.SignRNR), sumSigns(g.flows, flows.SignAfterRNR)
		text := fmt.Sprintf("%v was not ready: it had no receive posted and answered with RNR NAKs, from %s on.",
			g.address, formatStart(naks))
		if retransmitted.Count > 0 {
			text += fmt.Sprintf(" %s retransmitted for that reason.", formatCountWas(retransmitted.Count, "packet"))
		}
		v.addVerdict(Verdict{
			Cause: CauseNotReady, Party: g.address.String(), Since: naks.Since, Until: naks.Until,
			Text: text,
			Next: "The program there should post more receives, or post them earlier. " +
				"Its RNR timer is the time that senders wait.",
			Frames: evidenceFrames(g.flows, flows.SignRNR),
			Filter: joinAnd(filterAddress("src", g.address), rnrNAK),
		}, g.flows)
	}
}

// formatCountWas returns a count with its noun and "was" or "were".
func formatCountWas(n uint64, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return formatCount(n, what) + " were"
}
