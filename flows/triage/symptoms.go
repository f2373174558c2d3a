package triage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// The rules in this file find symptoms without a known cause.

// findLost finds lost and retransmitted packets. A gap that is not judged counts if the flow has no
// answers: in others it is the last gap, and the capture ended before its answer.
func findLost(v *view) {
	countUnjudged := func(f *flows.Flow) uint64 {
		if f.Evidence.Sign(flows.SignAnswer).Count > 0 {
			return 0
		}
		return f.PSN.Unjudged
	}
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return (hasLosses(f) || countUnjudged(f) > 0 || f.Causes.Read > 0) &&
			!v.hasCause(f, CauseOtherDSCP, CauseStorm, CauseTimedOut, CauseReordered, CauseNotReady)
	}) {
		seen := sumSigns(g.flows, append([]flows.SignKind{flows.SignReadRest}, lossSigns...)...)
		answers := sumSigns(g.flows, flows.SignAnswer).Count
		asked := sumSigns(g.flows, flows.SignNAK, flows.SignAfterNAK, flows.SignReadRest).Count
		var longest time.Duration
		var missing, unjudged, retransmitted uint64
		for _, f := range g.flows {
			missing += f.PSN.Lost
			unjudged += countUnjudged(f)
			retransmitted += f.PSN.Retransmitted
			longest = max(longest, f.Evidence.MaxTimeout)
		}
		var parts []string
		if missing > 0 {
			parts = append(parts, formatCountWas(missing, "packet")+" lost (no answer covers the gap)")
		}
		if retransmitted > 0 {
			reason := "earlier packets or answers were lost or late"
			switch {
			case answers == 0:
				reason = "the cause is unknown because " + v.describeUnmatched(g.flows)
			case asked == 0 && longest < minTimeout:
				reason = "no NAK asked for it and no timeout came before, so the capture may contain packets twice"
			}
			parts = append(parts, formatCountWas(retransmitted, "packet")+" retransmitted ("+reason+")")
		}
		if unjudged > 0 {
			parts = append(parts, formatCount(unjudged, "packet")+" did not arrive, and without answers it is unknown "+
				"whether the network or the capture lost them")
		}
		text := fmt.Sprintf("To %v, from %s on: %s.", g.address, formatStart(seen), strings.Join(parts, "; "))
		cause := CauseLost
		if missing+unjudged+asked == 0 {
			cause = CauseRetransmitted
		}
		v.addVerdict(Verdict{
			Cause: cause, Since: seen.Since, Until: seen.Until, Text: text,
			Next:   "Capture at a second point, and compare the two with -compare to see where packets are lost.",
			Frames: evidenceFrames(g.flows, append([]flows.SignKind{flows.SignReadRest}, lossSigns...)...),
			Filter: joinAnd(filterHosts(g.flows), filterFrames(seen)),
		}, g.flows)
	}
}

// describeUnmatched describes why flows have no answers: none were captured, or ACKs between the
// same hosts could not be matched.
func (v *view) describeUnmatched(of []*flows.Flow) string {
	for i := range v.Unpaired {
		u := &v.Unpaired[i]
		back := slices.ContainsFunc(of, func(f *flows.Flow) bool { return u.Src == f.Dst && u.Dst == f.Src })
		if back && u.ACKs > 0 {
			return "no answer could be matched to this flow"
		}
	}
	return "the capture contains no answers"
}

// findCongested finds marked packets and notifications.
func findCongested(v *view) {
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return congestionSign(f).Count > 0 && !v.hasCause(f, CauseIncast, CauseOnePath, CauseCNPMissing,
			CauseCNPUnheeded, CauseTooManyNotices)
	}) {
		hits, _ := congestionSpan(g.flows)
		var judged, cut uint64
		for _, f := range g.flows {
			judged += f.Evidence.Control.Judged
			cut += f.Evidence.Control.Slowed
		}
		text := fmt.Sprintf("The path to %v was congested, from %s on: %s", g.address, formatStart(hits),
			describeCongestion(g.flows))
		if judged > 0 {
			text += fmt.Sprintf(" Senders slowed down after %d of %s.", cut, formatCount(judged, "CNP"))
		}
		next := "Capture at the receiver as well, or with IOAM: a mark does not identify the switch."
		if q := deepestQueue(g.flows); q.Depth > 0 {
			next = fmt.Sprintf("Check node %d first: its queue was the deepest in the traces of the capture.", q.Node)
		}
		v.addVerdict(Verdict{
			Cause: CauseCongested, Since: hits.Since, Until: hits.Until, Text: text,
			Next:   next,
			Frames: evidenceFrames(g.flows, congestionKinds(g.flows...)...),
			Filter: filterCongestion(g.flows),
		}, g.flows)
	}
}

// deepestQueue returns the deepest queue on the path of flows; its Depth is 0 if none is known.
func deepestQueue(of []*flows.Flow) (q flows.QueueDepth) {
	for _, f := range of {
		if f.Queue.Known && f.Queue.Depth > q.Depth {
			q = f.Queue
		}
	}
	return q
}

// findRefused finds NAKs that end a connection.
func findRefused(v *view) {
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return f.Evidence.Sign(flows.SignRefused).Count > 0
	}) {
		naks := sumSigns(g.flows, flows.SignRefused)
		v.addVerdict(Verdict{
			Cause: CauseRefused, Since: naks.Since, Until: naks.Until,
			Text: fmt.Sprintf("%v refused %s with NAKs other than PSN sequence errors, from %s on: requests that are "+
				"not allowed, or that it cannot carry out. That ends the connection.",
				g.address, formatCount(naks.Count, "request"), formatStart(naks)),
			Next:   "The code of the NAK is the reason: check the keys, addresses and lengths of the two programs.",
			Frames: evidenceFrames(g.flows, flows.SignRefused),
			Filter: joinAnd(filterAddress("src", g.address), "infiniband.aeth.syndrome >= 0x61"),
		}, g.flows)
	}
}

// findCorrupt finds packets with a wrong ICRC.
func findCorrupt(v *view) {
	for _, g := range v.groupFlows(sourceOf, func(f *flows.Flow) bool { return f.ICRCWrong > 0 }) {
		wrong := sumSigns(g.flows, flows.SignWrongICRC)
		v.addVerdict(Verdict{
			Cause: CauseCorrupt, Since: wrong.Since, Until: wrong.Until,
			Text: fmt.Sprintf("%s from %v had a wrong ICRC, from %s on. Receivers drop them.",
				formatCount(wrong.Count, "packet"), g.address, formatStart(wrong)),
			Next: "A node on the path changes fields that it must not change, " +
				"or the sender computes the ICRC incorrectly.",
			Frames: evidenceFrames(g.flows, flows.SignWrongICRC),
			Filter: joinAnd(filterRequests(g.flows), filterFrames(wrong)),
		}, g.flows)
	}
}

// findNotCaptured finds packets that the receiver acknowledged and that were not captured.
func findNotCaptured(v *view) {
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool { return f.PSN.Unseen > 0 }) {
		gaps := sumSigns(g.flows, flows.SignGap)
		if gaps.Count == 0 { // only the last packets of the flow
			gaps = sumSigns(g.flows, flows.SignAnswer)
		}
		var unseen uint64
		for _, f := range g.flows {
			unseen += f.PSN.Unseen
		}
		v.addVerdict(Verdict{
			Cause: CauseNotCaptured, Since: gaps.Since, Until: gaps.Until,
			Text: fmt.Sprintf("%v acknowledged %s that were not captured, from %s on: the capture lost them, not the "+
				"network.", g.address, formatCount(unseen, "packet"), formatStart(gaps)),
			Next:   "Reduce the load of the capture: only headers (-s), a filter, a faster disk.",
			Frames: limitFrames([]Frame{{gaps.First, "after the first gap"}, {gaps.Last, "after the last gap"}}),
			Filter: joinAnd(filterHosts(g.flows), filterFrames(gaps)),
		}, g.flows)
	}
}
