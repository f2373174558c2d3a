package triage

import (
	"fmt"
	"slices"

	"github.com/rocecn/rocecn/flows"
)

// findOnePath: of the flows of two hosts, those with some UDP source ports met congestion, and the others met none. ECMP
// sends them different ways, by the source port, and one way has too much.
//
// Evidence: flows of one pair of hosts in one direction, at the same time, some with marks or notifications, others
// with none that by the share of the first should have had ten or more; no source port has flows of both kinds.
//
// Counter-evidence: the receiver's link is the same for all of them, as is the sender's: what all pass does not mark
// some alone. Flows that cannot be marked, or whose source port varies, do not count, nor do those of another DSCP,
// which may have a queue of their own.
func findOnePath(v *view) {
	var hit, spared []*flows.Flow
	var ports []uint16
	for _, to := range v.to {
		for _, g := range groupBy(to.flows, sourceOf) {
			a, b := splitByCongestion(g.flows)
			if len(a) == 0 || len(b) == 0 {
				continue
			}
			hit, spared = append(hit, a...), append(spared, b...)
			for _, f := range a {
				ports = append(ports, f.SrcPort)
			}
		}
	}
	if len(hit) == 0 {
		return
	}
	hits := flows.Sign{}
	for _, f := range hit {
		hits = addSigns(hits, congestionSign(f))
	}
	slices.Sort(ports)
	ports = slices.Compact(ports)
	v.addVerdict(Verdict{
		Cause: CauseOnePath, Since: hits.Since, Until: hits.Until,
		Text: fmt.Sprintf("One of several paths has too much: from %s on, the flows with the UDP source ports %s met "+
			"congestion, and %s between the same hosts at the same time met none: %s",
			formatStart(hits), formatList(ports, 6), formatCount(len(spared), "flow"), describeCongestion(hit)),
		Next: "ECMP chooses the path by the source port: look at which links these hash to, and use more ports, or " +
			"balance by load.",
		Frames: evidenceFrames(hit, congestionKinds(hit...)...),
		Filter: filterCongestion(hit),
	}, hit)
}

// splitByCongestion returns which flows of a pair of hosts met congestion, and which did not though together they should have; none
// where a source port has both.
func splitByCongestion(all []*flows.Flow) (hit, spared []*flows.Flow) {
	its, ports := map[*flows.Flow]bool{}, map[uint16]bool{} // of those that met it
	for _, f := range all {
		if f.Sequenced && !f.Varies.SrcPort && congestionSign(f).Count >= minMarks {
			hit = append(hit, f)
			its[f], ports[f.SrcPort] = true, true
		}
	}
	if len(hit) == 0 {
		return nil, nil
	}
	hits, requests := congestionSpan(hit)
	var expected uint64 // times requests
	for _, f := range all {
		switch {
		case its[f]:
		case ports[f.SrcPort]:
			return nil, nil
		case f.Sequenced && !f.Varies.SrcPort && f.DSCP == hit[0].DSCP && congestionSign(f).Count == 0 &&
			f.Evidence.Sign(flows.SignNotECT).Count == 0:
			spared = append(spared, f)
			expected += requestsDuring(f, &hits) * hits.Count
		}
	}
	if expected < minExpected*requests {
		return nil, nil
	}
	return hit, spared
}
