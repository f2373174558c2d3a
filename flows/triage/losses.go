package triage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/flows"
)

// findLosses finds lost and retransmitted packets: retransmission storms, timeouts and other losses.
// At one receiver they are one finding, because a burst that overflows its queue causes all of them;
// timeouts alone are findings about their senders.
func findLosses(v *view) {
	trimmed := trimmingsByReceiver(v.flows)
	var late []*flows.Flow // with timeouts only
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return (isStorm(f) || isTimedOut(f) || isLossy(f)) &&
			!v.hasCause(f, CauseOtherDSCP, CauseReordered, CauseGaveUp, CauseMTU, CausePathDown) &&
			!isTrimmed(f) && !v.withoutAnswers[f.FlowKey]
	}) {
		v.lostToo[g.address] = trimmed[g.address].selectFlows(g.flows)
		var storms, timeouts, others []*flows.Flow
		for _, f := range withoutFlows(g.flows, v.lostToo[g.address]) {
			switch {
			case isStorm(f):
				storms = append(storms, f)
			case isTimedOut(f):
				timeouts = append(timeouts, f)
			case !v.hasCause(f, CauseNotReady):
				others = append(others, f)
			}
		}
		all := slices.Concat(storms, others, timeouts)
		var one Verdict
		switch {
		case len(storms)+len(others) == 0:
			late = append(late, timeouts...)
			continue
		case sumOctets(storms) > sumOctets(others):
			one = describeStorm(all)
		case len(all) > 0:
			one = v.describeLoss(all)
		}
		one.Text += describeExpired(timeouts)
		one.Joined = len(groupBy(all, sourceOf))
		v.addVerdict(one, all)
	}
	for _, g := range groupBy(late, sourceOf) {
		v.addVerdict(describeTimeouts(&g), g.flows)
	}
}

// describeExpired returns a sentence about the senders of flows with timeouts, or "" if there are none.
func describeExpired(timeouts []*flows.Flow) string {
	if len(timeouts) == 0 {
		return ""
	}
	return fmt.Sprintf(" The retransmission timers of %s expired as well.",
		formatCount(len(addressesOf(timeouts, sourceOf)), "sender"))
}

// isTrimmed reports whether trimmed packets explain at least half of the losses of a flow.
func isTrimmed(f *flows.Flow) bool {
	n := f.Evidence.Sign(flows.SignTrimmed).Count
	return n > 0 && 2*n >= countLosses(f)
}

// sumOctets returns the IP octets of flows.
func sumOctets(all []*flows.Flow) uint64 {
	return sumOf(all, func(f *flows.Flow) uint64 { return f.Data.IPOctets })
}

// isLossy reports whether packets of a flow were lost, or may have been lost.
func isLossy(f *flows.Flow) bool { return hasLosses(f) || countUnjudged(f) > 0 || f.Causes.Read > 0 }

func lostPackets(f *flows.Flow) uint64 { return f.PSN.Lost }

// countUnjudged returns the number of skipped PSNs of a flow without answers. In a flow with answers
// an unjudged gap is the last one, and the capture ended before its answer.
func countUnjudged(f *flows.Flow) uint64 {
	if f.Evidence.Sign(flows.SignAnswer).Count > 0 {
		return 0
	}
	return f.PSN.Unjudged
}

// describeLoss returns the verdict about flows to one receiver that lost packets, or retransmitted
// them.
func (v *view) describeLoss(all []*flows.Flow) Verdict {
	seen := sumSigns(all, append([]flows.SignKind{flows.SignReadRest}, lossSigns...)...)
	answers := sumSigns(all, flows.SignAnswer).Count
	asked := sumSigns(all, flows.SignNAK, flows.SignAfterNAK, flows.SignReadRest).Count
	missing, unjudged, retransmitted := sumOf(all, lostPackets), sumOf(all, countUnjudged), countRetransmitted(all)
	longest := longestWait(slices.MaxFunc(all, func(a, b *flows.Flow) int {
		return cmp.Compare(longestWait(a), longestWait(b))
	}))
	where, look := locateLosses(all)
	var parts []string
	if missing > 0 {
		parts = append(parts, formatCountWas(missing, "packet")+" lost (no answer covers the gap)")
	}
	if retransmitted > 0 {
		reason := "earlier packets or answers were lost or late"
		switch {
		case answers == 0:
			reason = "the cause is unknown because " + v.describeUnmatched(all)
		case asked == 0 && longest < minTimeout:
			reason = "no NAK asked for it and no timeout came before, so the capture may contain packets twice"
		}
		if where == "" || answers == 0 {
			reason = " (" + reason + ")"
		} else {
			reason = ""
		}
		parts = append(parts, formatCountWas(retransmitted, "packet")+" retransmitted"+reason)
	}
	if unjudged > 0 {
		parts = append(parts, formatCount(unjudged, "packet")+" did not arrive, and without answers it is unknown "+
			"whether the network or the capture lost them")
	}
	if n := sumSigns(all, flows.SignRetransmitted, flows.SignReadRest).Count; len(parts) == 0 {
		parts = append(parts, formatCountWas(n, "lost packet")+" retransmitted")
	}
	text := fmt.Sprintf("To %v, from %s on: %s.", all[0].Dst, formatStart(seen), strings.Join(parts, "; "))
	cause, next := CauseLost, "Capture at a second point, and compare the two with -compare to see where packets "+
		"are lost."
	switch {
	case missing+unjudged+asked == 0:
		cause = CauseRetransmitted
	case unjudged == 0 && where != "":
		text, next = text+" "+where, look
	}
	return Verdict{
		Cause: cause, Since: seen.Since, Until: seen.Until, Text: text, Next: next,
		Frames: evidenceFrames(all, append([]flows.SignKind{flows.SignReadRest}, lossSigns...)...),
		Filter: joinAnd(filterHosts(all), filterFrames(seen)),
	}
}

// locateLosses returns a sentence about the part of the path on which packets of flows to one receiver were
// lost, and the next step: packets lost before the capture point leave gaps, and the receiver asks for others
// that passed it. Both are empty if neither is known.
func locateLosses(all []*flows.Flow) (where, next string) {
	gaps := sumSigns(all, flows.SignRetransmitted).Count + sumOf(all, lostPackets)
	sent, notECT := sumSigns(all, flows.SignRequest), sumSigns(all, flows.SignNotECT)
	to := all[0].Dst
	switch naks := sumSigns(all, flows.SignNAK).Count; {
	case gaps > 0:
		where = "The lost packets left gaps here: they were lost before this capture point."
		next = "Look for drops on the queues between the senders and this capture point"
	case naks > 0:
		where = fmt.Sprintf("The lost packets passed this capture point: they were lost between it and %v.", to)
		next = fmt.Sprintf("Look for drops on the queues between this capture point and %v, the last switch's port "+
			"first", to)
	default:
		return "", ""
	}
	if notECT.Count == sent.Count {
		where += " None of the packets is ECN-capable, so a full queue drops them instead of marking them."
		next += ", and check whether this traffic should be ECN-capable and in a lossless class"
	}
	return where, next + "."
}

// describeUnmatched describes why flows have no answers: none were captured, or ACKs between the
// same hosts could not be matched.
func (v *view) describeUnmatched(of []*flows.Flow) string {
	if slices.ContainsFunc(of, func(f *flows.Flow) bool { return v.unmatchedACKs[pair{f.Dst, f.Src}] }) {
		return "no answer could be matched to this flow"
	}
	return "the capture contains no answers"
}
