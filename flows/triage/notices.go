package triage

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// fewNotices is how many notifications about a flow one node must have sent until their frequency is judged.
const minNotices = 5

// findTooManyNotices: a node notified a sender more often than that can act upon.
//
// Evidence: from one address, about one flow, five or more notifications of a kind, more than half of which came within
// 10 µs of the one before.
//
// Counter-evidence: CNPs of a receiver have their own rule of 4 µs, which is the least that adapters have as default;
// as a proxy sends them in the receiver's name, nobody is blamed for them. No more than half of them
// close: so they are in a capture that has each packet twice.
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
				"the "+
				"one before, the closest %s.", n.From, formatCount(n.Count, n.Kind.String()), formatCount(len(x.flows), "flow"),
				formatStart(n.Sign), n.TooClose, formatDuration(max(n.MinSpacing, time.Nanosecond))),
			Next:   "Give it a least time between two notifications of a flow, 50 µs for example: per_flow.",
			Frames: limitFrames(x.shown),
			Filter: joinAnd(filterAddress("src", n.From), filterFrames(n.Sign)),
		}
		if n.Kind == flows.NoticeCNP {
			verdict.Party = ""
			verdict.Text = fmt.Sprintf("CNPs come too often: %s about %s came with the address of %v from %s on, %d "+
				"of "+
				"them less than 4 µs after the one before. The receiver sends them, or a proxy in its name.",
				formatCount(n.Count, "CNP"), formatCount(len(x.flows), "flow"), n.From, formatStart(n.Sign), n.TooClose)
			verdict.Next = "Look at the receiver's np_cnp_sent to know which; then set the least time between two " +
				"CNPs there."
			verdict.Filter = joinAnd(filterAddress("src", n.From), anyCNP)
		}
		v.addVerdict(verdict, x.flows)
	}
}
