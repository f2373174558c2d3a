package triage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// What was seen of flows, and no rule above explains.

// findLost: packets were lost, or something was repeated.
func findLost(v *view) {
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return (hasLosses(f) || f.PSN.Unjudged > 0 || f.Causes.Read > 0) &&
			!v.hasCause(f, CauseOtherDSCP, CauseStorm, CauseTimedOut, CauseReordered, CauseNotReady)
	}) {
		seen := sumSigns(g.flows, append([]flows.SignKind{flows.SignReadRest}, lossSigns...)...)
		answers := sumSigns(g.flows, flows.SignAnswer).Count
		asked := sumSigns(g.flows, flows.SignNAK, flows.SignAfterNAK, flows.SignReadRest).Count
		var silence time.Duration
		var missing, unjudged, repeats uint64
		for _, f := range g.flows {
			missing += f.PSN.Lost
			unjudged += f.PSN.Unjudged
			repeats += f.PSN.Retransmitted
			silence = max(silence, f.Evidence.MaxTimeout)
		}
		var parts []string
		if missing > 0 {
			parts = append(parts, formatCount(missing, "packet")+" never came here, and no answer covers that")
		}
		if repeats > 0 {
			why := "what came before, or answers, did not arrive or came too late"
			switch {
			case answers == 0:
				why = "why, answers would tell, and none " + v.describeUnmatched(g.flows)
			case asked == 0 && silence < minTimeout:
				why = "nobody asked for it, and no silence was before, so the capture may just have packets twice"
			}
			parts = append(parts, formatCountWas(repeats, "packet")+" sent again ("+why+")")
		}
		if unjudged > 0 {
			parts = append(parts, formatCount(unjudged, "packet")+" never came here, and as nothing came back, it cannot be "+
				"said whether in the network or in the capture")
		}
		text := fmt.Sprintf("To %v, from %s on: %s.", g.of, formatStart(seen), strings.Join(parts, "; "))
		cause := CauseLost
		if missing+unjudged+asked == 0 {
			cause = CauseRetransmitted
		}
		v.addVerdict(Verdict{
			Cause: cause, Since: seen.Since, Until: seen.Until, Text: text,
			Next:   "Capture at a second point, and compare the two with -compare: that shows where.",
			Frames: evidenceFrames(g.flows, append([]flows.SignKind{flows.SignReadRest}, lossSigns...)...),
			Filter: joinAnd(filterHosts(g.flows), filterFrames(seen)),
		}, g.flows)
	}
}

// describeUnmatched says of flows without an answer
// whether the capture has ACKs from the one end to the other that may be theirs.
func (v *view) describeUnmatched(of []*flows.Flow) string {
	for i := range v.Unpaired {
		u := &v.Unpaired[i]
		back := slices.ContainsFunc(of, func(f *flows.Flow) bool { return u.Src == f.Dst && u.Dst == f.Src })
		if back && u.ACKs > 0 {
			return "could be matched to this flow"
		}
	}
	return "is in the capture"
}

// findCongested: packets were marked, or notified about.
func findCongested(v *view) {
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return congestionSign(f).Count > 0 && !v.hasCause(f, CauseIncast, CauseOnePath, CauseCNPMissing, CauseCNPUnheeded, CauseTooManyNotices)
	}) {
		hits, _ := congestionSpan(g.flows)
		var judged, cut uint64
		for _, f := range g.flows {
			judged += f.Evidence.Control.Judged
			cut += f.Evidence.Control.Slowed
		}
		text := fmt.Sprintf("The way to %v was congested from %s on: %s", g.of, formatStart(hits), describeCongestion(g.flows))
		if judged > 0 {
			text += fmt.Sprintf(" Senders slowed down behind %d of %s.", cut, formatCount(judged, "CNP"))
		}
		next := "Capture at the receiver as well, or with IOAM: a mark does not say which switch made it."
		if q := deepestQueue(g.flows); q.Depth > 0 {
			next = fmt.Sprintf("Look at node %d first: of the queues that traces in the capture name, "+
				"its was the deepest.", q.Node)
		}
		v.addVerdict(Verdict{
			Cause: CauseCongested, Since: hits.Since, Until: hits.Until, Text: text,
			Next:   next,
			Frames: evidenceFrames(g.flows, congestionKinds(g.flows...)...),
			Filter: filterCongestion(g.flows),
		}, g.flows)
	}
}

// deepestQueue returns the deepest queue on the way of some flows, none of depth 0.
func deepestQueue(of []*flows.Flow) (q flows.QueueDepth) {
	for _, f := range of {
		if f.Queue.Known && f.Queue.Depth > q.Depth {
			q = f.Queue
		}
	}
	return q
}

// findRefused: the receiver refused requests for good, which ends the connection.
func findRefused(v *view) {
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return f.Evidence.Sign(flows.SignRefused).Count > 0
	}) {
		naks := sumSigns(g.flows, flows.SignRefused)
		v.addVerdict(Verdict{
			Cause: CauseRefused, Since: naks.Since, Until: naks.Until,
			Text: fmt.Sprintf("%v refused %s with NAKs other than for a PSN, from %s on: requests that are not "+
				"allowed, or "+
				"that it cannot carry out. That ends the connection.", g.of, formatCount(naks.Count, "request"), formatStart(naks)),
			Next:   "The NAK's code says which: look at keys, addresses and lengths that the two programs use.",
			Frames: evidenceFrames(g.flows, flows.SignRefused),
			Filter: joinAnd(filterAddress("src", g.of), "infiniband.aeth.syndrome >= 0x61"),
		}, g.flows)
	}
}

// findCorrupt: packets came with a wrong ICRC.
func findCorrupt(v *view) {
	for _, g := range v.groupFlows(sourceOf, func(f *flows.Flow) bool { return f.ICRCWrong > 0 }) {
		wrong := sumSigns(g.flows, flows.SignWrongICRC)
		v.addVerdict(Verdict{
			Cause: CauseCorrupt, Since: wrong.Since, Until: wrong.Until,
			Text: fmt.Sprintf("%s of %v came with a wrong ICRC, from %s on: receivers drop them.",
				formatCount(wrong.Count, "packet"), g.of, formatStart(wrong)),
			Next:   "Something on the way changes what it must not, or the sender's ICRC is wrong for such packets.",
			Frames: evidenceFrames(g.flows, flows.SignWrongICRC),
			Filter: joinAnd(filterRequests(g.flows), filterFrames(wrong)),
		}, g.flows)
	}
}

// findNotCaptured: the receiver acknowledged what the capture does not have.
func findNotCaptured(v *view) {
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool { return f.PSN.Unseen > 0 }) {
		gaps := sumSigns(g.flows, flows.SignGap)
		if gaps.Count == 0 { // the last ones of the flow
			gaps = sumSigns(g.flows, flows.SignAnswer)
		}
		var unseen uint64
		for _, f := range g.flows {
			unseen += f.PSN.Unseen
		}
		v.addVerdict(Verdict{
			Cause: CauseNotCaptured, Since: gaps.Since, Until: gaps.Until,
			Text: fmt.Sprintf("%v acknowledged %s that the capture does not have, from %s on: the capture lost them, "+
				"not the network.", g.of, formatCount(unseen, "packet"), formatStart(gaps)),
			Next:   "Capture with less: only headers (-s), a filter, a faster disk.",
			Frames: limitFrames([]Frame{{gaps.First, "behind the first gap"}, {gaps.Last, "behind the last gap"}}),
			Filter: joinAnd(filterHosts(g.flows), filterFrames(gaps)),
		}, g.flows)
	}
}
