package triage

import (
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/flows"
)

// The rules in this file find symptoms without a known cause.

// findCongested finds marked packets and notifications. A mark names no switch, so there is no party.
func findCongested(v *view) {
	missing := map[netip.Addr]bool{} // receivers without CNPs: their other flows are in the same queue
	for _, f := range v.flows {
		missing[f.Dst] = missing[f.Dst] || v.hasCause(f, CauseCNPMissing)
	}
	for _, g := range v.joinFans(func(f *flows.Flow) bool {
		return congestionSign(f).Count > 0 && !v.hasCause(f, CauseIncast, CauseOnePath, CauseCNPUnheeded,
			CauseTooManyNotices) && !missing[f.Dst]
	}, congestionSign) {
		hits, _ := congestionSpan(g.flows)
		judged := sumOf(g.flows, func(f *flows.Flow) uint64 { return f.Evidence.Control.Judged })
		slowed := sumOf(g.flows, func(f *flows.Flow) uint64 { return f.Evidence.Control.Slowed })
		subject := "The path " + g.describe() + " was"
		if n := countSources(g.flows); n > 1 {
			subject = fmt.Sprintf("The paths of %d senders %s were", n, g.describe())
		}
		text := fmt.Sprintf("%s congested, from %s on: %s", subject, formatStart(hits), describeCongestion(g.flows))
		next := "The queue is before this capture point: read the counters of marked packets on the switches " +
			"between the senders and here, or capture with IOAM."
		if sumSigns(g.flows, flows.SignCE).Count == 0 {
			text += " No packet had CE here, so the queue is after this capture point."
			next = "Read the counters of marked packets on the switches between this capture point and the " +
				"receiver, the last one first."
		}
		ce, requests := sumSigns(g.flows, flows.SignCE).Count, sumSigns(g.flows, flows.SignRequest).Count
		wrong := sumOf(g.flows, func(f *flows.Flow) uint64 { return f.Wrong.CNPs + f.Wrong.FastCNPs })
		switch {
		case wrong > 0:
			text += fmt.Sprintf(" The senders do not slow down for the %s with a wrong ICRC.", formatCount(wrong,
				"CNP"))
			next = "Mend these CNPs first. " + next
		case judged > 0 && (ce == 0 || 2*slowed >= judged): // a queue before this capture point hides lower rates
			text += fmt.Sprintf(" Senders slowed down after %d of %s.", slowed, formatCount(judged, "CNP"))
		}
		if ce > 0 && 100*ce < requests && wrong == 0 && sumSigns(g.flows, flows.SignCNP).Count > 0 {
			next = "So few marks with CNPs about them are ECN at work, and need no action unless these flows are " +
				"too slow. " +
				next
		}
		if cnps := sumSigns(g.flows, flows.SignCNP, flows.SignNotification, flows.SignAnswer); cnps.Count == 0 {
			text += " The capture has no packets from the receiver, so it does not show whether CNPs are sent."
			next += " Capture the other direction as well."
		}
		var suspects, excluded []string
		if judged == 0 && slowAfterMarks(g.flows) {
			text += " The senders slowed down after marks, so CNPs reach them, although the capture has none: its " +
				"mirror leaves them out."
			excluded = []string{"a receiver that sends no CNPs"}
		}
		switch q := deepestQueue(g.flows); {
		case q.Depth > 0:
			next = fmt.Sprintf("Check node %d first: its queue was the deepest in the traces of the capture.", q.Node)
			suspects = []string{fmt.Sprintf("node %d", q.Node)}
		case !g.to.IsValid():
			next = "These paths have the first links in common: check the queues of the sender's uplinks and of " +
				"the switches near it."
			suspects = []string{"a queue near " + g.from.String()}
		}
		v.addVerdict(Verdict{
			Cause: CauseCongested, Suspects: suspects, Excluded: excluded, Joined: g.joined, Since: hits.Since,
			Until:  hits.Until,
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

// findRefused finds NAKs that end a connection, matched to a flow or not. The host that sent them is
// named in the text. It is no party: the request may be wrong.
func findRefused(v *view) {
	hosts, all := v.collectRefusals(flows.SignRefused, func(u *flows.Unpaired) flows.Sign { return u.Refused })
	for _, host := range hosts {
		r := all[host]
		var codes []string
		for code := bth.NAKInvalidRequest; code <= bth.NAKInvalidRDRequest; code++ {
			if n := r.counts[code]; n > 0 {
				codes = append(codes, fmt.Sprintf("%d %v", n, code))
			}
		}
		suspects := []string{}
		for _, a := range r.asked {
			suspects = append(suspects, "the request of "+a.String())
		}
		next := "Check the keys, addresses and access rights that the two programs exchange."
		if r.counts[bth.NAKInvalidRequest] > 0 {
			next = "Check that both ends use the same path MTU and the lengths that the receiver expects."
		}
		v.addVerdict(Verdict{
			Cause: CauseRefused, Suspects: append(suspects, host.String()), Joined: r.lines, Since: r.sign.Since,
			Until: r.sign.Until,
			Text: fmt.Sprintf("%v rejected %s of %s, from %s on: NAK %s. That ends the connection.",
				host, formatCount(r.sign.Count, "request"), formatList(r.asked, 3), formatStart(r.sign),
				formatList(codes, 4)),
			Next:   next,
			Frames: limitFrames([]Frame{{r.sign.First, "NAK"}, {r.sign.Last, "NAK"}}),
			Filter: joinAnd(filterAddress("src", host), "infiniband.aeth.syndrome >= 0x61"),
		}, r.flows)
	}
}

// findCorrupt finds data with a wrong ICRC: requests and responses. [findWrongICRC] finds answers.
func findCorrupt(v *view) {
	for _, g := range v.groupFlows(sourceOf, func(f *flows.Flow) bool {
		return f.Evidence.Sign(flows.SignWrongICRC).Count > 0
	}) {
		wrong := sumSigns(g.flows, flows.SignWrongICRC)
		total := sumSigns(g.flows, flows.SignRequest).Count
		verdict := Verdict{
			Cause: CauseCorrupt, Since: wrong.Since, Until: wrong.Until,
			Suspects: []string{"a link or node before the capture point", g.address.String()},
			Text: fmt.Sprintf("%d of %s from %v had a wrong ICRC (%s), from %s on. Receivers drop such packets, and "+
				"the sender has to retransmit them.", wrong.Count, formatCount(total, "packet"), g.address,
				formatShare(wrong.Count, total), formatStart(wrong)),
			Next: "Look for CRC and symbol errors on the ports between this sender and the capture point, the " +
				"sender's cable first; without any, a node on the path rewrites a field that the ICRC covers.",
			Frames: evidenceFrames(g.flows, flows.SignWrongICRC),
			Filter: joinAnd(filterRequests(g.flows), filterFrames(wrong)),
		}
		if wrong.Count >= minWrong && wrong.Count == total {
			verdict.Suspects = []string{g.address.String(), hopBefore}
			verdict.Excluded = []string{"a link that corrupts packets: it would not hit all of them"}
			verdict.Next = fmt.Sprintf("Check how %v computes the ICRC, and which node on the path rewrites a field "+
				"that it covers, such as an address or a port.", g.address)
		}
		v.addVerdict(verdict, g.flows)
	}
}

// findNotCaptured finds packets that receivers acknowledged and that were not captured. The capture is their
// one cause.
func findNotCaptured(v *view) {
	all := selectFlows(v.flows, func(f *flows.Flow) bool { return f.PSN.Unseen > 0 })
	if len(all) == 0 {
		return
	}
	unseen := sumOf(all, func(f *flows.Flow) uint64 { return f.PSN.Unseen })
	gaps := sumSigns(all, flows.SignGap)
	if gaps.Count == 0 { // only the last packets of the flows
		gaps = sumSigns(all, flows.SignAnswer)
	}
	receivers := addressesOf(all, destinationOf)
	v.addVerdict(Verdict{
		Cause: CauseNotCaptured, Joined: len(receivers), Since: gaps.Since, Until: gaps.Until,
		Excluded: []string{"loss in the network: the receivers acknowledged these packets"},
		Text: fmt.Sprintf("%s to %s acknowledged but not captured, from %s on: the capture lost them, not the network.",
			formatCount(unseen, "packet"), formatList(receivers, 3)+wasOrWere(unseen), formatStart(gaps)),
		Next: "Reduce the load of the capture: only headers (-s), a filter, a faster disk. If only some flows have " +
			"gaps, a part of their packets takes a path that the capture does not see.",
		Frames: limitFrames([]Frame{{gaps.First, "after the first gap"}, {gaps.Last, "after the last gap"}}),
		Filter: joinAnd(filterHosts(all), filterFrames(gaps)),
	}, all)
}

// findTrimmed finds packets that a switch shortened to their headers instead of dropping them.
//
// Evidence: the trimmed packets themselves: only a switch with a full queue before the capture point
// makes them. They do not name it, so there is no party.
func findTrimmed(v *view) {
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return f.Evidence.Sign(flows.SignTrimmed).Count > 0
	}) {
		trimmed := sumSigns(g.flows, flows.SignTrimmed)
		text, all := describeRecovery(g.flows), g.flows
		others := selectFlows(v.lostToo[g.address], func(f *flows.Flow) bool {
			return f.Evidence.Sign(flows.SignTrimmed).Count == 0
		})
		if len(others) > 0 {
			text += fmt.Sprintf(" Packets of %s to it were lost at the same time.",
				formatCount(len(others), "other flow"))
			text += describeExpired(selectFlows(others, isTimedOut))
			all = append(all, others...)
		}
		v.addVerdict(Verdict{
			Cause: CauseTrimmed, Joined: len(groupBy(all, sourceOf)), Since: trimmed.Since, Until: trimmed.Until,
			Suspects: []string{"a full queue before the capture point"},
			Excluded: []string{"loss by corruption: a switch trims packets that do not fit into a queue"},
			Text: fmt.Sprintf("A switch trimmed %s to %v instead of dropping them, from %s on: a queue before this "+
				"capture point was full.%s", formatCount(trimmed.Count, "packet"), g.address, formatStart(trimmed),
				text),
			Next:   "Find the switch by its counters of trimmed packets, and the senders that share its queue.",
			Frames: evidenceFrames(g.flows, flows.SignTrimmed, flows.SignTrimmedNAK),
			Filter: joinAnd(filterRequests(g.flows), filterFrames(trimmed)),
		}, all)
	}
}

// describeRecovery describes the NAKs and the retransmissions that followed trimmed packets.
func describeRecovery(all []*flows.Flow) string {
	recovered := sumOf(all, func(f *flows.Flow) uint64 { return f.TrimmedRecovered })
	if recovered == 0 {
		return ""
	}
	return fmt.Sprintf(" NAKs or retransmissions followed %d of them.", recovered)
}
