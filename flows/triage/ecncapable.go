package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

// findNotECNCapable: a sender's packets cannot be marked, where others' were.
//
// Evidence: all requests of a flow are Not-ECT, and meanwhile packets to the same receiver, or from the same sender,
// came with CE. Such a sender is never told to slow down, and switches drop its packets where they mark others.
//
// Counter-evidence: no marks anywhere near it: then nobody would have marked it. Nodes that notify about it by
// themselves.
func findNotECNCapable(v *view) {
	marked := func(all groups) map[string]flows.Sign {
		out := map[string]flows.Sign{}
		for _, g := range all {
			out[g.of.String()] = sumSigns(g.flows, flows.SignCE)
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
			Cause: CauseNotECNCapable, Party: g.of.String(), Since: not.Since, Until: not.Until,
			Text: fmt.Sprintf("%v sends without ECN: all %s of %s are Not-ECT, from %s on. Meanwhile %s of other "+
				"flows "+
				"beside them came with CE: where these are marked, those are dropped, and nobody tells their sender.",
				g.of, formatCount(not.Count, "packet"), formatCount(len(g.flows), "flow"), formatStart(not),
				formatCount(others.Count, "packet")),
			Next: "Set ECT(0) on the sender: the ECN bits of its traffic class, by rdma_cm's or the adapter's " +
				"setting.",
			Frames: evidenceFrames(g.flows, flows.SignNotECT),
			Filter: joinAnd(filterRequests(g.flows), filterECN(g.of, 0)),
		}, g.flows)
	}
}
