package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

// findNotECNCapable finds senders of packets that cannot be marked, while others are marked.
//
// Evidence: all requests of a flow are Not-ECT, and at the same time other packets to its receiver
// or from its sender had CE. Such a sender receives no CNPs, and switches drop its packets where
// they mark others.
//
// Counter-evidence: no marks on related flows; notifications about the flow by nodes.
func findNotECNCapable(v *view) {
	marked := func(all groups) map[string]flows.Sign {
		out := map[string]flows.Sign{}
		for _, g := range all {
			out[g.address.String()] = sumSigns(g.flows, flows.SignCE)
		}
		return out
	}
	to, from := marked(v.to), marked(v.from)
	near := func(f *flows.Flow) flows.Sign {
		for _, s := range []flows.Sign{to[f.Dst.String()], from[f.Src.String()]} {
			if s.Count >= minMarks && isActive(f, s.Since, s.Until) {
				return s
			}
		}
		return flows.Sign{}
	}
	for _, g := range v.groupFlows(sourceOf, func(f *flows.Flow) bool {
		return f.Sequenced && f.Evidence.Sign(flows.SignNotECT).Count == f.Packets && f.Packets >= minExpected &&
			f.Evidence.Sign(flows.SignNotification).Count == 0 && near(f).Count > 0
	}) {
		var others flows.Sign
		for _, f := range g.flows {
			if s := near(f); s.Count > others.Count {
				others = s
			}
		}
		not := sumSigns(g.flows, flows.SignNotECT)
		v.addVerdict(Verdict{
			Cause: CauseNotECNCapable, Party: g.address.String(), Since: not.Since, Until: not.Until,
			Text: fmt.Sprintf("%v sends without ECN: all %s of %s are Not-ECT, from %s on. At the same time %s of "+
				"other flows had CE. Where switches mark those, they drop these, and no CNP tells the sender.",
				g.address, formatCount(not.Count, "packet"), formatCount(len(g.flows), "flow"), formatStart(not),
				formatCount(others.Count, "packet")),
			Next: "Set ECT(0) on the sender: the ECN bits of its traffic class, in the settings of rdma_cm or of " +
				"the adapter.",
			Frames: evidenceFrames(g.flows, flows.SignNotECT),
			Filter: joinAnd(filterRequests(g.flows), filterECN(g.address, 0)),
		}, g.flows)
	}
}
