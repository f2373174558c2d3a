package triage

import (
	"fmt"

	"github.com/rocecn/rocecn/flows"
)

// findNotECNCapable finds senders of packets that cannot be marked, while others are marked.
//
// Evidence: all requests of a flow are Not-ECT, and at the same time other packets to its receiver
// or from its sender had CE. No CNP is sent about such packets, and switches drop them where they
// mark others.
//
// A hop that clears the field before the capture point gives the same picture, so there are two
// suspects. Excluded are nodes that notify about the flow, because they read the field, and a network
// that marks nothing.
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
		return f.Sequenced && f.Evidence.Sign(flows.SignNotECT).Count == f.Data.Packets &&
			f.Data.Packets >= minExpected &&
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
			Cause: CauseNotECNCapable, Suspects: []string{g.address.String(), hopBefore},
			Excluded: []string{"a network without ECN: other packets near these were marked"},
			Since:    not.Since, Until: not.Until,
			Text: fmt.Sprintf("The packets of %v arrive without ECN: all %s of %s are Not-ECT, from %s on. At the "+
				"same time %s of other flows had CE. Where switches mark the others, they drop these, and no "+
				"receiver sends a CNP. Either %v sends them so, or a hop before this capture point clears the field.",
				g.address, formatCount(not.Count, "packet"), formatCount(len(g.flows), "flow"), formatStart(not),
				formatCount(others.Count, "packet"), g.address),
			Next: fmt.Sprintf("Capture at %v: if its packets leave with ECT(0), compare captures along the path "+
				"(-compare) to find the hop that clears the field; if not, set the ECN bits of its traffic class.",
				g.address),
			Frames: evidenceFrames(g.flows, flows.SignNotECT),
			Filter: joinAnd(filterRequests(g.flows), filterECN(g.address, 0)),
		}, g.flows)
	}
}
