package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

// notReady: a receiver had no receive posted for a message that came.
//
// Evidence: RNR NAKs from it, about flows to it, or repeats that follow one.
//
// Counter-evidence: none. An RNR NAK says what it is, and who says it.
func notReady(v *view) {
	for _, g := range v.each(destination, func(f *flows.Flow) bool {
		return f.Evidence.Sign(flows.SignRNR).Count > 0 && f.RNRNAKs+f.Causes.RNR > 0
	}) {
		naks, repeats := sum(g.flows, flows.SignRNR), sum(g.flows, flows.SignRepeatRNR)
		text := fmt.Sprintf("%v was not ready: it had no receive posted and answered with RNR NAKs from %s on.", g.of,
			clock(naks))
		if repeats.Count > 0 {
			text += fmt.Sprintf(" %s sent again for it.", was(repeats.Count, "packet"))
		}
		v.say(Verdict{
			Cause: NotReady, Party: g.of.String(), Since: naks.Since, Until: naks.Until,
			Text:   text,
			Next:   "Have the program there post more receives, or earlier. Its RNR timer says how long senders wait.",
			Frames: frames(g.flows, flows.SignRNR),
			Filter: and(address("src", g.of), rnrNAK),
		}, g.flows)
	}
}

// was writes how many there were.
func was(n uint64, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return count(n, what) + " were"
}
