package triage

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// minRetries is the number of retransmissions of a request from which silence is the end: adapters
// retransmit 7 times by default, and those that wait longer each time wait at most twice as long.
const minRetries = 3

// findGaveUp finds senders that gave up a connection.
//
// Evidence: the same request retransmitted without an answer until the flow ends, while the capture
// goes on: see [flows.GaveUp]. The receiver, the path to it and the path back give the same picture,
// so no party is named. Other answers of the receiver at that time exclude that it is down.
func findGaveUp(v *view) {
	answered := map[netip.Addr]time.Time{} // last answer of each receiver on other connections
	for _, f := range v.flows {
		if at := f.Evidence.Sign(flows.SignAnswer).Until; f.GaveUp == nil && at.After(answered[f.Dst]) {
			answered[f.Dst] = at
		}
	}
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return f.GaveUp != nil && f.GaveUp.Retries >= minRetries && longestWait(f) >= minTimeout &&
			!v.hasCause(f, CauseMTU, CausePathDown)
	}) {
		retransmitted := sumSigns(g.flows, flows.SignAfterTimeout)
		if retransmitted.Count == 0 {
			continue
		}
		var most uint64
		var shown []Frame
		for _, f := range g.flows {
			most = max(most, f.GaveUp.Retries)
			shown = append(shown, Frame{f.Evidence.Sign(flows.SignAfterTimeout).First, flows.SignAfterTimeout.String()},
				Frame{f.GaveUp.Frame, "last retransmission"})
		}
		verdict := Verdict{
			Cause: CauseGaveUp, Joined: len(g.flows), Since: retransmitted.Since, Until: retransmitted.Until,
			Suspects: []string{"the path to " + g.address.String(), "the queue pair at " + g.address.String(),
				"the path of its answers"},
			Text: fmt.Sprintf("%s to %v ended: the sender retransmitted a request up to %d times without any "+
				"answer, from %s on, and then sent nothing more. Its program got the error \"transport retry "+
				"counter exceeded\".",
				formatCount(len(g.flows), "connection"), g.address, most, formatStart(retransmitted)),
			Next: "Look for an error of the queue pair on the receiver at that time (dmesg, hw counters); if there " +
				"is none, capture at the receiver to see whether the requests arrive.",
			Frames: limitFrames(shown),
			Filter: joinAnd(filterHosts(g.flows), filterFrames(retransmitted)),
		}
		if answered[g.address].After(retransmitted.Until) {
			verdict.Excluded = []string{"a receiver that is down: it answers on other connections"}
			verdict.Text += fmt.Sprintf(" %v answered on other connections meanwhile.", g.address)
		}
		v.addVerdict(verdict, g.flows)
	}
}
