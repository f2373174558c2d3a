package triage

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// Thresholds of the comparison with neighbours. A sender that obeys slows down visibly after half of
// its CNPs at least, so five CNPs without any have a probability of 3 %, and with less than a fifth
// of many of them it is smaller.
const (
	minJudged   = 5   // judged CNPs of the flow and of its neighbours
	mostSlowed  = 0.2 // share of CNPs after which the flow slowed down
	leastSlowed = 0.6 // the same for its neighbours
	rateSpared  = 1.2 // rate of the flow, compared with the mean rate of its neighbours after CNPs

	// Thresholds of the comparison of rates: senders that obey the same CNPs approach the same rate.
	minCompared = 32                   // judged CNPs of the flow
	minTogether = 5 * time.Millisecond // time from the first of them to the last
	leastKept   = 0.9                  // mean rate after CNPs, compared with that before them
	mostKept    = 0.6                  // the same for neighbours, compared with their highest rate
	rateAbove   = 2                    // rate of the flow, compared with the fastest neighbour
)

// findCNPUnheeded finds senders that do not slow down after CNPs.
//
// Evidence: a long run of CNPs in quick succession, with the same rate at its end as at its beginning
// (see [flows.Control]); or fewer CNPs, after which neighbours at the same receiver slowed down and
// this one did not, although it is faster than they are; or as many CNPs in the same time as neighbours that
// came down from a higher rate, and twice the rate of the fastest of them.
//
// CNPs may be lost between the capture point and the sender, so the sender is named only if it slows
// down after CNPs about other flows: then CNPs reach it. A flow that sends less than its limit does
// not slow down visibly; such flows are slower than their neighbours. A queue that is still draining
// hides a lower rate for at most 10 ms.
func findCNPUnheeded(v *view) {
	v.addUnheeded(func(f *flows.Flow) bool { return f.Evidence.Control.Unheeded.Count > 0 },
		func(f *flows.Flow) (flows.Sign, float64) {
			c := &f.Evidence.Control
			return c.Unheeded, c.Rate
		}, "")
	neighbours := map[*flows.Flow]bool{}
	for _, g := range v.to {
		n := newNeighbours(g.flows)
		for _, f := range g.flows {
			neighbours[f] = n.slowedMore(f) || n.areSlower(f)
		}
	}
	v.addUnheeded(func(f *flows.Flow) bool {
		return neighbours[f] && !v.hasCause(f, CauseCNPUnheeded)
	}, func(f *flows.Flow) (flows.Sign, float64) {
		return cnpSign(f), f.Evidence.Control.After
	}, " Other senders to the same receiver slowed down after their CNPs.")
}

// cnpSign returns the CNPs about a flow with and without a Fast CNP option.
func cnpSign(f *flows.Flow) flows.Sign {
	return sumSigns([]*flows.Flow{f}, flows.SignCNP, flows.SignNotification)
}

// addUnheeded adds verdicts about the senders of flows that meet a condition, with the CNPs and the
// rate that show it.
func (v *view) addUnheeded(holds func(*flows.Flow) bool, of func(*flows.Flow) (flows.Sign, float64), more string) {
	obeys := map[netip.Addr]bool{}
	for _, f := range v.flows {
		c := &f.Evidence.Control
		if c.Slowed >= minMarks && float64(c.Slowed) >= leastSlowed*float64(c.Judged) {
			obeys[f.Src] = true
		}
	}
	for _, g := range v.groupFlows(sourceOf, holds) {
		var run flows.Sign
		var rates float64
		var shown []Frame
		for _, f := range g.flows {
			s, rate := of(f)
			run = addSigns(run, s)
			rates += rate
			shown = append(shown, Frame{s.First, "CNP"}, Frame{s.Last, "CNP"})
		}
		verdict := Verdict{
			Cause: CauseCNPUnheeded, Since: run.Since, Until: run.Until,
			Text: fmt.Sprintf("%v did not slow down: %s about its flows came within %s, from %s on, and after them "+
				"it still sent %s per flow.%s", g.address,
				formatCount(run.Count, "CNP"), formatDuration(run.Until.Sub(run.Since)), formatStart(run),
				formatRate(rates/float64(len(g.flows))), more),
			Next: "Read rp_cnp_handled and rp_cnp_ignored on the sender: if neither grows, CNPs are lost on their " +
				"way to it; else turn on its reaction point (RP) for this priority.",
			Frames: limitFrames(shown),
			Filter: joinAnd(filterAddress("dst", g.address), anyCNP),
		}
		if obeys[g.address] {
			verdict.Party = g.address.String()
			verdict.Excluded = []string{"CNPs lost on their way: the sender slowed down after those about other flows"}
			verdict.Text += " It slowed down after CNPs about other flows, so CNPs reach it."
		} else {
			verdict.Suspects = []string{g.address.String(), pathToSender}
			verdict.Text += " Its reaction point is off, or CNPs are lost between this capture point and the sender."
		}
		v.addVerdict(verdict, g.flows)
	}
}
