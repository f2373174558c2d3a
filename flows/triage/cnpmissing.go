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
	minMarks    = 3
	minAnswered = 200 * time.Microsecond
)

// findCNPMissing: packets were marked, and no CNP came back.
//
// Evidence: a flow of a reliable service with several packets with CE, after the first of which the receiver
// acknowledged others for some time. Its ECN is off, or its CNPs go another way than its answers.
//
// Counter-evidence: any CNP from the receiver to this sender, about whichever flow, as adapters answer by the address
// too; notifications of nodes, instead of which there may be no CNP. Where the receiver's answers were not captured,
// its CNPs were not, either; and one that sends CNPs to others has its ECN on: then nobody is blamed.
func findCNPMissing(v *view) {
	answered := map[pair]bool{}       // by the direction of the flows
	notifies := map[netip.Addr]bool{} // receivers, anybody
	for p, n := range v.pairs {
		answered[pair{p.dst, p.src}] = n > 0
		notifies[p.src] = notifies[p.src] || n > 0
	}
	for _, f := range v.flows {
		if f.CNPs+f.Evidence.Sign(flows.SignNotification).Count > 0 {
			answered[pair{f.Src, f.Dst}] = true
		}
		notifies[f.Dst] = notifies[f.Dst] || f.Evidence.Sign(flows.SignCNP).Count > 0
	}
	marked := func(f *flows.Flow) bool {
		return f.Sequenced && f.ECN[rocev2.CE] >= minMarks && !answered[pair{f.Src, f.Dst}]
	}
	seen := func(f *flows.Flow) bool {
		answers := f.Evidence.Sign(flows.SignAnswerAfterCE)
		return answers.Count >= minMarks && answers.Until.Sub(f.Evidence.Sign(flows.SignCE).Since) >= minAnswered
	}
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool { return marked(f) && seen(f) }) {
		marks, answers := sumSigns(g.flows, flows.SignCE), sumSigns(g.flows, flows.SignAnswerAfterCE)
		party, why := g.of.String(), "Its ECN is off, unless its CNPs go another way than its ACKs."
		if notifies[g.of] {
			party = ""
			why = "To others it sends CNPs: these may go another way, or be limited for all senders together."
		}
		v.addVerdict(Verdict{
			Cause: CauseCNPMissing, Party: party, Since: marks.Since, Until: marks.Until,
			Text: fmt.Sprintf("%s to %v came with CE from %s on, and %v answered with no CNP, though %s from it came "+
				"behind the first mark. %s",
				formatCount(marks.Count, "packet"), g.of, formatStart(marks), g.of, formatCount(answers.Count, "answer"), why),
			Next:   "Turn on the notification point (NP) for this priority on the receiver; see its np_cnp_sent.",
			Frames: evidenceFrames(g.flows, flows.SignCE),
			Filter: joinAnd(filterRequests(g.flows), filterECN(g.of, 3)),
		}, g.flows)
	}
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return marked(f) && f.Evidence.Sign(flows.SignAnswer).Count == 0
	}) {
		marks := sumSigns(g.flows, flows.SignCE)
		v.addVerdict(Verdict{
			Cause: CauseCNPMissing, Since: marks.Since, Until: marks.Until,
			Text: fmt.Sprintf("%s to %v came with CE from %s on, and no CNP is in the capture. Nor is any other "+
				"answer of these flows: whether the receiver sends CNPs cannot be said.",
				formatCount(marks.Count, "packet"), g.of, formatStart(marks)),
			Next:   "Capture the other direction, too, at the same place.",
			Frames: evidenceFrames(g.flows, flows.SignCE),
			Filter: joinAnd(filterRequests(g.flows), filterECN(g.of, 3)),
		}, g.flows)
	}
}
