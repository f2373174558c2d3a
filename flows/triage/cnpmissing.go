package triage

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/flows"
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
// receiver for some time after the first one.
//
// A mirror that takes the class of the data only gives the same picture, and so do CNPs that are lost
// between the receiver and the capture point. The receiver is named only if the sender did not slow
// down during marks that would have caused many CNPs: see [flows.Control]. If its rate fell after
// marks, CNPs arrived, and there is no verdict.
//
// Excluded by any CNP from the receiver to this sender, because adapters may limit CNPs by address,
// even with a wrong ICRC; by notifications of nodes, which may replace CNPs. A receiver that sends
// CNPs to others has ECN on. If its answers were not captured, CNPs were not captured either.
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
		return f.Sequenced && f.Evidence.Sign(flows.SignCE).Count >= minMarks && !answered[pair{f.Src, f.Dst}]
	}
	seen := func(f *flows.Flow) bool {
		answers := f.Evidence.Sign(flows.SignAnswerAfterCE)
		return answers.Count >= minMarks && answers.Until.Sub(f.Evidence.Sign(flows.SignCE).Since) >= minAnswered
	}
	for _, g := range v.groupFlows(destinationOf, func(f *flows.Flow) bool { return marked(f) && seen(f) }) {
		if slowAfterMarks(g.flows) {
			continue
		}
		marks, answers := sumSigns(g.flows, flows.SignCE), sumSigns(g.flows, flows.SignAnswerAfterCE)
		suspects := []string{g.address.String(), mirror}
		reason := "ECN is off there, or the mirror leaves out CNPs, which often have a class of their own."
		excluded := []string{"a capture of one direction: the receiver's answers are in it"}
		if slices.ContainsFunc(g.flows, func(f *flows.Flow) bool { return f.Evidence.Control.Unanswered.Count > 0 }) {
			suspects[1] = "the path of its CNPs to the capture point"
			reason = "The senders did not slow down, so no CNPs reach them: ECN is off at the receiver, or its " +
				"CNPs are lost."
			excluded = append(excluded, "a mirror that leaves out CNPs: the senders would slow down")
		}
		if notifies[g.address] {
			suspects = []string{"the limit of CNPs in total at " + g.address.String(), "the path of CNPs to the sender"}
			reason = "It sends CNPs to other senders: those to this one may take another path, or be limited in total."
			excluded = append(excluded, "ECN off at the receiver", "a mirror that leaves out CNPs")
		}
		v.addVerdict(Verdict{
			Cause: CauseCNPMissing, Suspects: suspects, Excluded: excluded, Since: marks.Since, Until: marks.Until,
			Text: fmt.Sprintf("%s to %v had CE, from %s on, and the capture has no CNP from it, although %s from it "+
				"came after the first mark. %s",
				formatCount(marks.Count, "packet"), g.address, formatStart(marks),
				formatCount(answers.Count, "answer"), reason),
			Next: "Read np_cnp_sent on the receiver: if it grows, its CNPs take another path or are not mirrored; " +
				"if not, turn on the notification point (NP) for this priority there.",
			Frames: evidenceFrames(g.flows, flows.SignCE),
			Filter: joinAnd(filterRequests(g.flows), filterECN(g.address, 3)),
		}, g.flows)
	}
}

// slowAfterMarks reports whether senders slow down after marks, again and again, and less often at
// other times: CNPs reach them, even if the capture has none. At least three slow times of at least
// half of the marks are needed; without marks at most half as many.
func slowAfterMarks(all []*flows.Flow) bool {
	var judged, slowed, quiet, quietSlowed uint64
	for _, f := range all {
		c := &f.Evidence.Control
		judged, slowed = judged+c.MarksJudged, slowed+c.MarksSlowed
		quiet, quietSlowed = quiet+c.QuietJudged, quietSlowed+c.QuietSlowed
	}
	return slowed >= 3 && 2*slowed >= judged && quiet >= 3 && 2*quietSlowed*judged <= slowed*quiet
}
