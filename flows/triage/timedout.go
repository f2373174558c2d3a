package triage

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// fewSilence is how long a sender must have been silent until what it repeats then is taken for a timeout: timers are
// 4.096 µs times a power of two, in practice 2^7 and more, and no copy of a network comes so late.
const minTimeout = 500 * time.Microsecond

// findTimedOut: a sender waited for an acknowledgement that did not come, and sent again.
//
// Evidence: repeats that no NAK explains, the first of them after a silence of the flow.
//
// Counter-evidence: no answers in the capture: then a NAK may be what is missing, and there is no verdict. Repeats
// without a silence before them. Repeats that all came before the flow's first RNR NAK: where a capture begins in the
// middle, one before them may be from when it was not known yet whose answers these are.
func findTimedOut(v *view) {
	for _, g := range v.groupFlows(sourceOf, func(f *flows.Flow) bool {
		e := f.Evidence
		rnr := e.Sign(flows.SignRNR)
		return f.Causes.Timeout > 0 && e.MaxTimeout >= minTimeout && e.Sign(flows.SignAnswer).Count > 0 &&
			(rnr.Count == 0 || rnr.First < e.Sign(flows.SignAfterTimeout).Last)
	}) {
		again := sumSigns(g.flows, flows.SignAfterTimeout)
		var longest time.Duration
		var covered uint64
		for _, f := range g.flows {
			longest = max(longest, f.Evidence.MaxTimeout)
			covered += f.Evidence.AlreadyAcknowledged
		}
		why := "None of these had been acknowledged here: they were lost, or their ACKs before this point."
		switch {
		case covered*2 >= again.Count:
			why = fmt.Sprintf("Of these, %d had been acknowledged here before: the ACKs were lost between here and "+
				"the "+
				"sender, or the timer is too short.", covered)
		case covered > 0:
			why = fmt.Sprintf("Of these, %d had been acknowledged here before, the others not.", covered)
		}
		v.addVerdict(Verdict{
			Cause: CauseTimedOut, Since: again.Since, Until: again.Until,
			Text: fmt.Sprintf("%v waited for answers until its timer ran out, %s at most, and sent %s again, from "+
				"%s on. %s",
				g.of, formatDuration(longest), formatCount(again.Count, "packet"), formatStart(again), why),
			Next: "The last packet of a message, when it is lost, makes no gap and no NAK: look for drops on the " +
				"way, and for ACKs that are dropped on the way back.",
			Frames: evidenceFrames(g.flows, flows.SignAfterTimeout),
			Filter: joinAnd(filterHosts(g.flows), filterFrames(again)),
		}, g.flows)
	}
}
