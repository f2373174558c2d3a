package triage

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// minNotices is the minimum number of notifications from one node about one flow.
const minNotices = 5

// findTooManyNotices finds nodes that notify a sender more often than it can react.
//
// Evidence: at least five notifications of one kind from one address about one flow, more than half
// of them within 10 µs of the previous one.
//
// Counter-evidence: for CNPs of a receiver the limit is 4 µs, the smallest default interval of
// adapters; a proxy may have sent them with the receiver's address, so no party is named. If each
// packet was captured twice, no more than half of the notifications are close to the previous one.
func findTooManyNotices(v *view) {
	type key struct {
		from string
		kind flows.NoticeKind
	}
	type found struct {
		of    flows.Notifier
		flows []*flows.Flow
		shown []Frame
	}
	all := map[key]*found{}
	var order []key
	for _, f := range v.flows {
		for _, n := range f.Evidence.Notifiers {
			if n.Count < minNotices || n.TooClose*2 <= n.Count {
				continue
			}
			k := key{n.From.String(), n.Kind}
			x := all[k]
			if x == nil {
				x = &found{of: n}
				all[k] = x
				order = append(order, k)
			} else {
				x.of.Sign = addSigns(x.of.Sign, n.Sign)
				x.of.TooClose += n.TooClose
				x.of.MinSpacing = min(x.of.MinSpacing, n.MinSpacing)
			}
			x.flows = append(x.flows, f)
			x.shown = append(x.shown, Frame{n.First, n.Kind.String()}, Frame{n.Last, n.Kind.String()})
		}
	}
	for _, k := range order {
		x := all[k]
		n := &x.of
		verdict := Verdict{
			Cause: CauseTooManyNotices, Party: k.from, Since: n.Since, Until: n.Until,
			Text: fmt.Sprintf("%v notifies too often: %s about %s came from %s on, %d of them less than 10 µs after "+
				"the previous one; the shortest interval was %s.", n.From, formatCount(n.Count, n.Kind.String()),
				formatCount(len(x.flows), "flow"),
				formatStart(n.Sign), n.TooClose, formatDuration(max(n.MinSpacing, time.Nanosecond))),
			Next: "Configure a minimum interval between two notifications of a flow there, for example 50 µs " +
				"(per_flow).",
			Frames: limitFrames(x.shown),
			Filter: joinAnd(filterAddress("src", n.From), filterFrames(n.Sign)),
		}
		if n.Kind == flows.NoticeCNP {
			verdict.Party = ""
			verdict.Suspects = []string{k.from, "a proxy that sends CNPs with this address"}
			verdict.Text = fmt.Sprintf("CNPs come too often: %s about %s came with the address of %v, from %s on, "+
				"%d of them less than 4 µs after the previous one. The receiver or a proxy sends them.",
				formatCount(n.Count, "CNP"), formatCount(len(x.flows), "flow"), n.From, formatStart(n.Sign), n.TooClose)
			verdict.Next = "Check the receiver's np_cnp_sent to find out which; then set the minimum interval " +
				"between two CNPs there."
			verdict.Filter = joinAnd(filterAddress("src", n.From), anyCNP)
		}
		v.addVerdict(verdict, x.flows)
	}
}
