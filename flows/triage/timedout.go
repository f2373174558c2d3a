package triage

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// minTimeout is the minimum time without requests before a retransmission that counts as a timeout.
// Timers are 4.096 µs times a power of two, in practice at least 2^7, and copies made by a network
// come earlier.
const minTimeout = 500 * time.Microsecond

// isTimedOut reports whether the retransmission timer of a flow's sender expired.
//
// Evidence: retransmissions without a NAK, the first of them after a time without requests, or several in a
// row after a time without an answer.
//
// Counter-evidence: no answers in the capture, because a NAK may be missing as well;
// retransmissions without a pause before them; retransmissions only before the flow's first RNR
// NAK, because earlier RNR NAKs could not be matched if the capture began within the connection.
func isTimedOut(f *flows.Flow) bool {
	e := f.Evidence
	rnr := e.Sign(flows.SignRNR)
	return f.Causes.Timeout > 0 && longestWait(f) >= minTimeout && e.Sign(flows.SignAnswer).Count > 0 &&
		(rnr.Count == 0 || rnr.First < e.Sign(flows.SignAfterTimeout).Last)
}

// longestWait returns the longest time for which the sender of a flow waited before it retransmitted: without
// requests, or while it sent requests without an answer.
func longestWait(f *flows.Flow) time.Duration { return max(f.Evidence.MaxTimeout, f.Evidence.MaxWait) }

// describeTimeouts returns the verdict about a sender with an expired retransmission timer.
func describeTimeouts(g *group) Verdict {
	retransmitted := sumSigns(g.flows, flows.SignAfterTimeout)
	covered := sumOf(g.flows, func(f *flows.Flow) uint64 { return f.Evidence.AlreadyAcknowledged })
	spurious := sumOf(g.flows, func(f *flows.Flow) uint64 { return f.Causes.Spurious })
	receivers := formatList(addressesOf(g.flows, destinationOf), 3)
	timer := "the Local ACK Timeout of " + g.address.String()
	shortest, longest := waitsOf(g.flows)
	rtt := typicalRoundTrip(g.flows)
	isShort := rtt > 0 && shortest <= 2*rtt // compared with round trips
	var reason, next string
	var suspects, excluded []string
	switch {
	case covered*2 >= retransmitted.Count && !isShort:
		reason = fmt.Sprintf("The answers to %d of these had passed this capture point before, so they were lost "+
			"between it and %v.", covered, g.address)
		next = fmt.Sprintf("Look for drops on the way from this capture point to %v.", g.address)
		suspects = []string{"the path from this capture point to " + g.address.String(), timer}
		excluded = []string{"loss of the requests: they were answered"}
	case spurious == retransmitted.Count && !isShort:
		reason = "The receiver answered each copy, so no request was lost; the first answers were lost before this " +
			"capture point."
		next = fmt.Sprintf("Look for drops on the way of the answers, from %s to this capture point.", receivers)
		suspects = []string{"the path of the answers from " + receivers, timer}
		excluded = []string{"loss of the requests: each copy was answered"}
	case covered*2 >= retransmitted.Count || spurious == retransmitted.Count:
		reason = fmt.Sprintf("The receiver answered each copy, and nothing was lost: the timer is too short for "+
			"round trips of %s.", formatDuration(rtt))
		next = "Raise the Local ACK Timeout of these queue pairs (4.096 µs times a power of two), or find out why " +
			"round trips are so long."
		suspects = []string{timer, "a queue that makes round trips long"}
		excluded = []string{"loss: each copy was answered"}
	default:
		reason = "These requests passed this capture point without an answer: they were lost after it, or their " +
			"answers before they came back to it."
		if covered > 0 {
			reason = fmt.Sprintf("The answers to %d of these had passed this capture point before; to the others "+
				"there was none.", covered)
		}
		next = fmt.Sprintf("Look for drops between this capture point and %s, in both directions: if the last "+
			"packet of a message is lost, the receiver sends no NAK.", receivers)
		suspects = []string{"the path between this capture point and " + receivers, "the path of the answers"}
	}
	return Verdict{
		Cause: CauseTimedOut, Since: retransmitted.Since, Until: retransmitted.Until,
		Suspects: suspects, Excluded: excluded,
		Text: fmt.Sprintf("The retransmission timer of %v expired: it waited %s for an answer, and then "+
			"retransmitted %s to %s, from %s on. %s", g.address, formatRange([]time.Duration{shortest, longest}),
			formatCount(retransmitted.Count, "packet"), receivers, formatStart(retransmitted), reason),
		Next:   next,
		Frames: evidenceFrames(g.flows, flows.SignAfterTimeout),
		Filter: joinAnd(filterHosts(g.flows), filterFrames(retransmitted)),
	}
}

// waitsOf returns the shortest and the longest time for which the senders of flows waited for an answer, rounded.
func waitsOf(all []*flows.Flow) (shortest, longest time.Duration) {
	for _, f := range all {
		least, most := f.Evidence.MinTimeout, longestWait(f)
		if f.Evidence.MaxWait > f.Evidence.MaxTimeout { // it was never silent for as long as its timer runs
			least = most
		}
		if longest == 0 || least < shortest {
			shortest = least
		}
		longest = max(longest, most)
	}
	return roundDuration(shortest), roundDuration(longest)
}

// typicalRoundTrip returns the longest median of the round trip times of flows, or 0 if none is known.
func typicalRoundTrip(all []*flows.Flow) (longest time.Duration) {
	for _, f := range all {
		if f.RTT != nil {
			longest = max(longest, f.RTT.Percentile(0.5))
		}
	}
	return longest
}
