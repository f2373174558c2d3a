package triage

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
)

// fewMarks is how many marked packets a flow must have until their CNP is missed, and cnpTime for how long others were
// answered meanwhile.
const (
	fewMarks = 3
	cnpTime  = 200 * time.Microsecond
)

// cnpMissing: packets were marked, and no CNP came back.
//
// Evidence: a flow of a reliable service with several packets with CE, after the first of which the receiver
// acknowledged others for some time. Its ECN is off, or its CNPs go another way than its answers.
//
// Counter-evidence: any CNP from the receiver to this sender, about whichever flow, as adapters answer by the address
// too; notifications of nodes, instead of which there may be no CNP. Where the receiver's answers were not captured,
// its CNPs were not, either; and one that sends CNPs to others has its ECN on: then nobody is blamed.
func cnpMissing(v *view) {
	answered := map[pair]bool{}       // by the direction of the flows
	notifies := map[netip.Addr]bool{} // receivers, anybody
	for p, n := range v.pairs {
		answered[pair{p.dst, p.src}] = n > 0
		notifies[p.src] = notifies[p.src] || n > 0
	}
	for _, f := range v.flows {
		if f.CNPs+f.Evidence.Sign(flows.SignNotice).Count > 0 {
			answered[pair{f.Src, f.Dst}] = true
		}
		notifies[f.Dst] = notifies[f.Dst] || f.Evidence.Sign(flows.SignCNP).Count > 0
	}
	marked := func(f *flows.Flow) bool {
		return f.Sequenced && f.ECN[rocev2.CE] >= fewMarks && !answered[pair{f.Src, f.Dst}]
	}
	seen := func(f *flows.Flow) bool {
		answers := f.Evidence.Sign(flows.SignAnswerAfterCE)
		return answers.Count >= fewMarks && answers.Until.Sub(f.Evidence.Sign(flows.SignCE).Since) >= cnpTime
	}
	for _, g := range v.each(destination, func(f *flows.Flow) bool { return marked(f) && seen(f) }) {
		marks, answers := sum(g.flows, flows.SignCE), sum(g.flows, flows.SignAnswerAfterCE)
		party, why := g.of.String(), "Its ECN is off, unless its CNPs go another way than its ACKs."
		if notifies[g.of] {
			party = ""
			why = "To others it sends CNPs: these may go another way, or be limited for all senders together."
		}
		v.say(Verdict{
			Cause: CNPMissing, Party: party, Since: marks.Since, Until: marks.Until,
			Text: fmt.Sprintf("%s to %v came with CE from %s on, and %v answered with no CNP, though %s from it came "+
				"behind the first mark. %s",
				count(marks.Count, "packet"), g.of, clock(marks), g.of, count(answers.Count, "answer"), why),
			Next:   "Turn on the notification point (NP) for this priority on the receiver; see its np_cnp_sent.",
			Frames: frames(g.flows, flows.SignCE),
			Filter: and(requests(g.flows), ecn(g.of, 3)),
		}, g.flows)
	}
	for _, g := range v.each(destination, func(f *flows.Flow) bool {
		return marked(f) && f.Evidence.Sign(flows.SignAnswer).Count == 0
	}) {
		marks := sum(g.flows, flows.SignCE)
		v.say(Verdict{
			Cause: CNPMissing, Since: marks.Since, Until: marks.Until,
			Text: fmt.Sprintf("%s to %v came with CE from %s on, and no CNP is in the capture. Nor is any other "+
				"answer of these flows: whether the receiver sends CNPs cannot be said.",
				count(marks.Count, "packet"), g.of, clock(marks)),
			Next:   "Capture the other direction, too, at the same place.",
			Frames: frames(g.flows, flows.SignCE),
			Filter: and(requests(g.flows), ecn(g.of, 3)),
		}, g.flows)
	}
}
