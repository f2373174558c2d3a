package triage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// What was seen of flows, and no rule above explains.

// lost: packets were lost, or something was repeated.
func lost(v *view) {
	for _, g := range v.each(destination, func(f *flows.Flow) bool {
		return (loses(f) || f.PSN.Unjudged > 0 || f.Causes.Read > 0) &&
			!v.explained(f, OtherDSCP, Storm, TimedOut, Reordered, NotReady)
	}) {
		seen := sum(g.flows, append([]flows.SignKind{flows.SignRepeatRead}, losses...)...)
		answers := sum(g.flows, flows.SignAnswer).Count
		asked := sum(g.flows, flows.SignNAK, flows.SignRepeatNAK, flows.SignRepeatRead).Count
		var silence time.Duration
		var missing, unjudged, repeats uint64
		for _, f := range g.flows {
			missing += f.PSN.Lost
			unjudged += f.PSN.Unjudged
			repeats += f.PSN.Repeats
			silence = max(silence, f.Evidence.MostSilence)
		}
		var parts []string
		if missing > 0 {
			parts = append(parts, count(missing, "packet")+" never came here, and no answer covers that")
		}
		if repeats > 0 {
			why := "what came before, or answers, did not arrive or came too late"
			switch {
			case answers == 0:
				why = "why, answers would tell, and none " + v.unmatched(g.flows)
			case asked == 0 && silence < fewSilence:
				why = "nobody asked for it, and no silence was before, so the capture may just have packets twice"
			}
			parts = append(parts, was(repeats, "packet")+" sent again ("+why+")")
		}
		if unjudged > 0 {
			parts = append(parts, count(unjudged, "packet")+" never came here, and as nothing came back, it cannot be "+
				"said whether in the network or in the capture")
		}
		text := fmt.Sprintf("To %v, from %s on: %s.", g.of, clock(seen), strings.Join(parts, "; "))
		cause := Lost
		if missing+unjudged+asked == 0 {
			cause = Repeated
		}
		v.say(Verdict{
			Cause: cause, Since: seen.Since, Until: seen.Until, Text: text,
			Next:   "Capture at a second point, and compare the two with -compare: that shows where.",
			Frames: frames(g.flows, append([]flows.SignKind{flows.SignRepeatRead}, losses...)...),
			Filter: and(hosts(g.flows), between(seen)),
		}, g.flows)
	}
}

// unmatched says of flows without an answer
// whether the capture has ACKs from the one end to the other that may be theirs.
func (v *view) unmatched(of []*flows.Flow) string {
	for i := range v.Unpaired {
		u := &v.Unpaired[i]
		back := slices.ContainsFunc(of, func(f *flows.Flow) bool { return u.Src == f.Dst && u.Dst == f.Src })
		if back && u.ACKs > 0 {
			return "could be matched to this flow"
		}
	}
	return "is in the capture"
}

// congested: packets were marked, or notified about.
func congested(v *view) {
	for _, g := range v.each(destination, func(f *flows.Flow) bool {
		return congestion(f).Count > 0 && !v.explained(f, Incast, OnePath, CNPMissing, CNPUnheeded, TooManyNotices)
	}) {
		hits, _ := spell(g.flows)
		var judged, cut uint64
		for _, f := range g.flows {
			judged += f.Evidence.Control.Judged
			cut += f.Evidence.Control.Slowed
		}
		text := fmt.Sprintf("The way to %v was congested from %s on: %s", g.of, clock(hits), says(g.flows))
		if judged > 0 {
			text += fmt.Sprintf(" Senders slowed down behind %d of %s.", cut, count(judged, "CNP"))
		}
		next := "Capture at the receiver as well, or with IOAM: a mark does not say which switch made it."
		if q := deepest(g.flows); q.Depth > 0 {
			next = fmt.Sprintf("Look at node %d first: of the queues that traces in the capture name, "+
				"its was the deepest.", q.Node)
		}
		v.say(Verdict{
			Cause: Congested, Since: hits.Since, Until: hits.Until, Text: text,
			Next:   next,
			Frames: frames(g.flows, met(g.flows...)...),
			Filter: selects(g.flows),
		}, g.flows)
	}
}

// deepest returns the deepest queue on the way of some flows, none of depth 0.
func deepest(of []*flows.Flow) (q flows.QueueDepth) {
	for _, f := range of {
		if f.Queue.Known && f.Queue.Depth > q.Depth {
			q = f.Queue
		}
	}
	return q
}

// refused: the receiver refused requests for good, which ends the connection.
func refused(v *view) {
	for _, g := range v.each(destination, func(f *flows.Flow) bool {
		return f.Evidence.Sign(flows.SignRefused).Count > 0
	}) {
		naks := sum(g.flows, flows.SignRefused)
		v.say(Verdict{
			Cause: Refused, Since: naks.Since, Until: naks.Until,
			Text: fmt.Sprintf("%v refused %s with NAKs other than for a PSN, from %s on: requests that are not "+
				"allowed, or "+
				"that it cannot carry out. That ends the connection.", g.of, count(naks.Count, "request"), clock(naks)),
			Next:   "The NAK's code says which: look at keys, addresses and lengths that the two programs use.",
			Frames: frames(g.flows, flows.SignRefused),
			Filter: and(address("src", g.of), "infiniband.aeth.syndrome >= 0x61"),
		}, g.flows)
	}
}

// corrupt: packets came with a wrong ICRC.
func corrupt(v *view) {
	for _, g := range v.each(source, func(f *flows.Flow) bool { return f.ICRCWrong > 0 }) {
		wrong := sum(g.flows, flows.SignCorrupt)
		v.say(Verdict{
			Cause: Corrupt, Since: wrong.Since, Until: wrong.Until,
			Text: fmt.Sprintf("%s of %v came with a wrong ICRC, from %s on: receivers drop them.",
				count(wrong.Count, "packet"), g.of, clock(wrong)),
			Next:   "Something on the way changes what it must not, or the sender's ICRC is wrong for such packets.",
			Frames: frames(g.flows, flows.SignCorrupt),
			Filter: and(requests(g.flows), between(wrong)),
		}, g.flows)
	}
}

// notCaptured: the receiver acknowledged what the capture does not have.
func notCaptured(v *view) {
	for _, g := range v.each(destination, func(f *flows.Flow) bool { return f.PSN.Unseen > 0 }) {
		gaps := sum(g.flows, flows.SignGap)
		if gaps.Count == 0 { // the last ones of the flow
			gaps = sum(g.flows, flows.SignAnswer)
		}
		var unseen uint64
		for _, f := range g.flows {
			unseen += f.PSN.Unseen
		}
		v.say(Verdict{
			Cause: NotCaptured, Since: gaps.Since, Until: gaps.Until,
			Text: fmt.Sprintf("%v acknowledged %s that the capture does not have, from %s on: the capture lost them, "+
				"not the network.", g.of, count(unseen, "packet"), clock(gaps)),
			Next:   "Capture with less: only headers (-s), a filter, a faster disk.",
			Frames: some([]Frame{{gaps.First, "behind the first gap"}, {gaps.Last, "behind the last gap"}}),
			Filter: and(hosts(g.flows), between(gaps)),
		}, g.flows)
	}
}
