package triage

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
)

// Thresholds: marked packets of a flow, and the time for which other packets were answered
// meanwhile.
const (
	minMarks    = 3
	minAnswered = 200 * time.Microsecond
)

// findCNPMissing finds marked flows about which no CNP came back.
//
// Evidence: a flow of a reliable service with several packets with CE, and answers from the
// receiver for some time after the first one. ECN is off at the receiver, or its CNPs take another
// path than its answers.
//
// Counter-evidence: any CNP from the receiver to this sender, because adapters may limit CNPs by
// address, even with a wrong ICRC; notifications by nodes, which may replace CNPs. If the receiver's answers were not
// captured, CNPs were not captured either. A receiver that sends CNPs to others has ECN on. In
// these two cases no party is named.
func findCNPMissing(v *view) {
	answered := map[pair]bool{}       // direction of the flows
	notifies := map[netip.Addr]bool{} // receivers that send CNPs
	for p, n := range v.pairs {
		answered[pair{p.dst, p.src}] = n > 0
		notifies[p.src] = notifies[p.src] || n > 0
	}
	for _, f := range v.flows {
		if f.CNPs+f.Wrong.CNPs+f.Evidence.Sign(flows.SignNotification).Count > 0 {
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
		party, reason := g.address.String(), "ECN is off there, or its CNPs take another path than its ACKs."
		if notifies[g.address] {
			party = ""
			reason = "It sends CNPs to other senders: those to this one may take another path, or be limited in total."
		}
		v.addVerdict(Verdict{
			Cause: CauseCNPMissing, Party: party, Since: marks.Since, Until: marks.Until,
			Text: fmt.Sprintf("%s to %v had CE, from %s on, and %v sent no CNP, although %s from it came "+
				"after the first mark. %s",
				formatCount(marks.Count, "packet"), g.address, formatStart(marks), g.address,
				formatCount(answers.Count, "answer"), reason),
			Next:   "Turn on the notification point (NP) for this priority on the receiver, and check its np_cnp_sent.",
			Frames: evidenceFrames(g.flows, flows.SignCE),
			Filter: joinAnd(filterRequests(g.flows), filterECN(g.address, 3)),
		}, g.flows)
	}
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool {
		return marked(f) && f.Evidence.Sign(flows.SignAnswer).Count == 0
	}) {
		marks := sumSigns(g.flows, flows.SignCE)
		v.addVerdict(Verdict{
			Cause: CauseCNPMissing, Since: marks.Since, Until: marks.Until,
			Text: fmt.Sprintf("%s to %v had CE, from %s on, and the capture contains no CNP and no other answer "+
				"of these flows. It is unknown whether the receiver sends CNPs.",
				formatCount(marks.Count, "packet"), g.address, formatStart(marks)),
			Next:   "Capture the other direction as well, at the same place.",
			Frames: evidenceFrames(g.flows, flows.SignCE),
			Filter: joinAnd(filterRequests(g.flows), filterECN(g.address, 3)),
		}, g.flows)
	}
}
