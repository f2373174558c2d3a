package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

// findNotReady: a receiver had no receive posted for a message that came.
//
// Evidence: RNR NAKs from it, about flows to it, or repeats that follow one.
//
// Counter-evidence: none. An RNR NAK says what it is, and who says it.
func findNotReady(v *view) {
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return f.Evidence.Sign(flows.SignRNR).Count > 0 && f.RNRNAKs+f.Causes.RNR > 0
	}) {
		naks, repeats := sumSigns(g.flows, flows.SignRNR), sumSigns(g.flows, flows.SignAfterRNR)
		text := fmt.Sprintf("%v was not ready: it had no receive posted and answered with RNR NAKs from %s on.", g.of,
			formatStart(naks))
		if repeats.Count > 0 {
			text += fmt.Sprintf(" %s sent again for it.", formatCountWas(repeats.Count, "packet"))
		}
		v.addVerdict(Verdict{
			Cause: CauseNotReady, Party: g.of.String(), Since: naks.Since, Until: naks.Until,
			Text:   text,
			Next:   "Have the program there post more receives, or earlier. Its RNR timer says how long senders wait.",
			Frames: evidenceFrames(g.flows, flows.SignRNR),
			Filter: joinAnd(filterAddress("src", g.of), rnrNAK),
		}, g.flows)
	}
}

// formatCountWas writes how many there were.
func formatCountWas(n uint64, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return formatCount(n, what) + " were"
}
