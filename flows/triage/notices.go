package triage

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// fewNotices is how many notifications about a flow one node must have sent until their frequency is judged.
const fewNotices = 5

// tooManyNotices: a node notified a sender more often than that can act upon.
//
// Evidence: from one address, about one flow, five or more notifications of a kind, more than half of which came within
// 10 µs of the one before.
//
// Counter-evidence: CNPs of a receiver have their own rule of 4 µs, which is the least that adapters have as default;
// as a proxy sends them in the receiver's name, nobody is blamed for them. No more than half of them
// close: so they are in a capture that has each packet twice.
func tooManyNotices(v *view) {
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
			if n.Count < fewNotices || n.Close*2 <= n.Count {
				continue
			}
			k := key{n.From.String(), n.Kind}
			x := all[k]
			if x == nil {
				x = &found{of: n}
				all[k] = x
				order = append(order, k)
			} else {
				x.of.Sign = plus(x.of.Sign, n.Sign)
				x.of.Close += n.Close
				x.of.Least = min(x.of.Least, n.Least)
			}
			x.flows = append(x.flows, f)
			x.shown = append(x.shown, Frame{n.First, n.Kind.String()}, Frame{n.Last, n.Kind.String()})
		}
	}
	for _, k := range order {
		x := all[k]
		n := &x.of
		verdict := Verdict{
			Cause: TooManyNotices, Party: k.from, Since: n.Since, Until: n.Until,
			Text: fmt.Sprintf("%v notifies too often: %s about %s came from %s on, %d of them less than 10 µs after "+
				"the "+
				"one before, the closest %s.", n.From, count(n.Count, n.Kind.String()), count(len(x.flows), "flow"),
				clock(n.Sign), n.Close, about(max(n.Least, time.Nanosecond))),
			Next:   "Give it a least time between two notifications of a flow, 50 µs for example: per_flow.",
			Frames: some(x.shown),
			Filter: and(address("src", n.From), between(n.Sign)),
		}
		if n.Kind == flows.NoticeCNP {
			verdict.Party = ""
			verdict.Text = fmt.Sprintf("CNPs come too often: %s about %s came with the address of %v from %s on, %d "+
				"of "+
				"them less than 4 µs after the one before. The receiver sends them, or a proxy in its name.",
				count(n.Count, "CNP"), count(len(x.flows), "flow"), n.From, clock(n.Sign), n.Close)
			verdict.Next = "Look at the receiver's np_cnp_sent to know which; then set the least time between two " +
				"CNPs there."
			verdict.Filter = and(address("src", n.From), anyCNP)
		}
		v.say(verdict, x.flows)
	}
}
