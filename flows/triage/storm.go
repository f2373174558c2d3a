package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

const (
	stormRepeats = 50 // packets of a flow
	stormPart    = 5  // at least a fifth of what it sent
)

// findStorm: a large part of what a flow sends is sent again, for what the receiver missed: go-back-N repeats all that was
// under way for each packet that is lost.
//
// Evidence: repeats after NAKs, of the rest of READs, or by a timer while the flow goes on, that are a fifth of its
// packets and fifty at least, and NAKs or READs that ask for some of them.
//
// Counter-evidence: repeats for RNR NAKs, and timeouts after a silence, have verdicts of their own. Where nobody asked
// for any, and there was no silence, the capture may have each packet twice: at a mirror of two ports, for example. Who
// lost the packets is not said.
func findStorm(v *view) {
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		n := f.Causes.NAK + f.Causes.Read
		if f.Evidence.MaxTimeout < minTimeout { // by a timer that ran out while it sent others
			n += f.Causes.Timeout
		}
		asked := f.Evidence.Sign(flows.SignNAK).Count + f.Causes.NAK + f.Causes.Read
		return asked > 0 && n >= stormRepeats && n*stormPart >= f.Packets
	}) {
		again := sumSigns(g.flows, flows.SignAfterNAK, flows.SignReadRest, flows.SignAfterTimeout)
		total := sumSigns(g.flows, flows.SignRequest)
		naks := sumSigns(g.flows, flows.SignNAK)
		v.addVerdict(Verdict{
			Cause: CauseStorm, Since: again.Since, Until: again.Until,
			Text: fmt.Sprintf("%d of %s to %v are repeats (%s), from %s on, after %s: for each packet that the "+
				"receiver misses, all that was under way is sent "+
				"again.", again.Count, formatCount(total.Count, "packet"), g.of,
				formatShare(again.Count, total.Count), formatStart(again), formatCount(naks.Count, "NAK")),
			Next: "Find what it misses: drops at the queues on the way, a DSCP that is not lossless, packets out of " +
				"order. Compare two points with -compare.",
			Frames: evidenceFrames(g.flows, flows.SignNAK, flows.SignAfterNAK, flows.SignReadRest),
			Filter: joinAnd(filterHosts(g.flows), filterFrames(addSigns(naks, again))),
		}, g.flows)
	}
}
