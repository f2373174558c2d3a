package triage

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// findNotReady finds receivers without a posted receive for a message.
//
// Evidence: RNR NAKs from the receiver, matched to a flow or not. Only the receiver sends them, and it
// has no other reason, so it is the party.
func findNotReady(v *view) {
	named := map[netip.Addr]bool{}
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return f.Evidence.Sign(flows.SignRNR).Count > 0 && f.RNRNAKs+f.Causes.RNR > 0
	}) {
		naks, retransmitted := sumSigns(g.flows, flows.SignRNR), sumSigns(g.flows, flows.SignAfterRNR)
		text := fmt.Sprintf("%v was not ready: it had no receive posted and answered with RNR NAKs, from %s on.",
			g.address, formatStart(naks))
		if timers := timersOf(g.flows); len(timers) > 0 {
			text += fmt.Sprintf(" The RNR timer in them is %s.", formatRange(timers))
		}
		if retransmitted.Count > 0 {
			text += fmt.Sprintf(" %s retransmitted for that reason.", formatCountWas(retransmitted.Count, "packet"))
		}
		named[g.address] = true
		v.addVerdict(Verdict{
			Cause: CauseNotReady, Party: g.address.String(), Since: naks.Since, Until: naks.Until,
			Text: text,
			Next: "The program there should post more receives, or post them earlier. Its RNR timer is the time " +
				"that senders wait.",
			Frames: evidenceFrames(g.flows, flows.SignRNR),
			Filter: joinAnd(filterAddress("src", g.address), rnrNAK),
		}, g.flows)
	}
	for i := range v.Unpaired {
		u := &v.Unpaired[i]
		if u.RNR.Count == 0 || named[u.Src] {
			continue
		}
		text := fmt.Sprintf("%v was not ready: it had no receive posted for requests of %v and answered with RNR "+
			"NAKs, from %s on. The flow is not known.", u.Src, u.Dst, formatStart(u.RNR))
		if timers := u.Timers(); len(timers) > 0 {
			text += fmt.Sprintf(" The RNR timer in them is %s.", formatRange(timers))
		}
		v.addVerdict(Verdict{
			Cause: CauseNotReady, Party: u.Src.String(), Since: u.RNR.Since, Until: u.RNR.Until,
			Text:   text,
			Next:   "The program there should post more receives, or post them earlier.",
			Frames: limitFrames([]Frame{{u.RNR.First, "RNR NAK"}, {u.RNR.Last, "RNR NAK"}}),
			Filter: joinAnd(filterAddress("src", u.Src), rnrNAK),
		}, nil)
	}
}

// timersOf returns the times in the RNR NAKs about flows, in ascending order.
func timersOf(all []*flows.Flow) []time.Duration {
	var sum flows.Answers
	for _, f := range all {
		sum.RNRTimers |= f.RNRTimers
	}
	return sum.Timers()
}

// formatRange returns the least and the largest of sorted durations.
func formatRange(all []time.Duration) string {
	least, largest := all[0], all[len(all)-1]
	if least == largest {
		return least.String()
	}
	return fmt.Sprintf("%v to %v", least, largest)
}

// formatCountWas returns a count with its noun and "was" or "were".
func formatCountWas(n uint64, what string) string { return formatCount(n, what) + wasOrWere(n) }

// wasOrWere returns " was" after a single thing and " were" after others.
func wasOrWere(n uint64) string {
	if n == 1 {
		return " was"
	}
	return " were"
}
