package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

// The rules in this file find symptoms without a known cause.

// findCongested finds marked packets and notifications. A mark names no switch, so there is no party.
func findCongested(v *view) {
	for _, g := range v.joinFans(func(f *flows.Flow) bool {
		return congestionSign(f).Count > 0 && !v.hasCause(f, CauseIncast, CauseOnePath, CauseCNPMissing,
			CauseCNPUnheeded, CauseTooManyNotices)
	}, congestionSign) {
		hits, _ := congestionSpan(g.flows)
		var judged, cut uint64
		for _, f := range g.flows {
			judged += f.Evidence.Control.Judged
			cut += f.Evidence.Control.Slowed
		}
		text := fmt.Sprintf("The path %s was congested, from %s on: %s", g.describe(), formatStart(hits),
			describeCongestion(g.flows))
		if judged > 0 {
			text += fmt.Sprintf(" Senders slowed down after %d of %s.", cut, formatCount(judged, "CNP"))
		}
		var suspects []string
		next := "Capture at the receiver as well, or with IOAM: a mark does not identify the switch."
		switch q := deepestQueue(g.flows); {
		case q.Depth > 0:
			next = fmt.Sprintf("Check node %d first: its queue was the deepest in the traces of the capture.", q.Node)
			suspects = []string{fmt.Sprintf("node %d", q.Node)}
		case !g.to.IsValid():
			next = "These paths have the first links in common: check the queues of the sender's uplinks and of the " +
				"switches near it."
			suspects = []string{"a queue near " + g.from.String()}
		}
		v.addVerdict(Verdict{
			Cause: CauseCongested, Suspects: suspects, Joined: g.joined, Since: hits.Since, Until: hits.Until,
			Text:   text,
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
