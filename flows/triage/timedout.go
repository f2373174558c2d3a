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
	var longest time.Duration
	var covered, spurious uint64
	for _, f := range g.flows {
		longest = max(longest, longestWait(f))
		covered += f.Evidence.AlreadyAcknowledged
		spurious += f.Causes.Spurious
	}
	reason := "None of these had been acknowledged: they were lost, or their ACKs were lost before this point."
	switch {
	case spurious == retransmitted.Count:
		reason = "The requests were answered as often as they were sent, so nothing was lost: the timer is shorter " +
			"than " +
			"the round trip."
	case covered*2 >= retransmitted.Count:
		reason = fmt.Sprintf("Of these, %d had been acknowledged before: the ACKs were lost on their way to the "+
			"sender, or the timer is too short.", covered)
	case covered > 0:
		reason = fmt.Sprintf("Of these, %d had been acknowledged before, the others not.", covered)
	}
	return Verdict{
		Cause: CauseTimedOut, Since: retransmitted.Since, Until: retransmitted.Until,
		Text: fmt.Sprintf("The retransmission timer of %v expired, after %s at most, and it retransmitted %s, "+
			"from %s on. %s",
			g.address, formatDuration(longest), formatCount(retransmitted.Count, "packet"),
			formatStart(retransmitted), reason),
		Next: "If the last packet of a message is lost, there is no gap and no NAK: look for drops on the path, " +
			"and for ACKs dropped on the way back.",
		Frames: evidenceFrames(g.flows, flows.SignAfterTimeout),
		Filter: joinAnd(filterHosts(g.flows), filterFrames(retransmitted)),
	}
}
