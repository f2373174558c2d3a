package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

// notECNCapable: a sender's packets cannot be marked, where others' were.
//
// Evidence: all requests of a flow are Not-ECT, and meanwhile packets to the same receiver, or from the same sender,
// came with CE. Such a sender is never told to slow down, and switches drop its packets where they mark others.
//
// Counter-evidence: no marks anywhere near it: then nobody would have marked it. Nodes that notify about it by
// themselves.
func notECNCapable(v *view) {
	marked := func(all groups) map[string]flows.Sign {
		out := map[string]flows.Sign{}
		for _, g := range all {
			out[g.of.String()] = sum(g.flows, flows.SignCE)
		}
		return out
	}
	to, from := marked(v.to), marked(v.from)
	near := func(f *flows.Flow) flows.Sign {
		for _, s := range []flows.Sign{to[f.Dst.String()], from[f.Src.String()]} {
			if s.Count >= fewMarks && active(f, s.Since, s.Until) {
				return s
			}
		}
		return flows.Sign{}
	}
	for _, g := range v.each(source, func(f *flows.Flow) bool {
		return f.Sequenced && f.Evidence.Sign(flows.SignNotECT).Count == f.Packets && f.Packets >= fewHits &&
			f.Evidence.Sign(flows.SignNotice).Count == 0 && near(f).Count > 0
	}) {
		var others flows.Sign
		for _, f := range g.flows {
			if s := near(f); s.Count > others.Count {
				others = s
			}
		}
		not := sum(g.flows, flows.SignNotECT)
		v.say(Verdict{
			Cause: NotECNCapable, Party: g.of.String(), Since: not.Since, Until: not.Until,
			Text: fmt.Sprintf("%v sends without ECN: all %s of %s are Not-ECT, from %s on. Meanwhile %s of other "+
				"flows "+
				"beside them came with CE: where these are marked, those are dropped, and nobody tells their sender.",
				g.of, count(not.Count, "packet"), count(len(g.flows), "flow"), clock(not),
				count(others.Count, "packet")),
			Next: "Set ECT(0) on the sender: the ECN bits of its traffic class, by rdma_cm's or the adapter's " +
				"setting.",
			Frames: frames(g.flows, flows.SignNotECT),
			Filter: and(requests(g.flows), ecn(g.of, 0)),
		}, g.flows)
	}
}
