package triage

import (
	"fmt"
	"slices"

	"github.com/rocecn/rocecn/flows"
)

// findOnePath finds flows between two hosts that are congested for some UDP source ports only. ECMP
// chooses the path by the source port, so one path is congested.
//
// Evidence: flows of one direction between two hosts at the same time, some with signs of
// congestion, others without although at least ten were expected at the same share; no source port
// has flows of both kinds.
//
// Counter-evidence: none needed for the links of the two hosts, which all the flows share. Flows
// that cannot be marked, with varying source ports, or with another DSCP, which may use another
// queue, do not count.
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
	hits, _ := congestionSpan(hit)
	slices.Sort(ports)
	ports = slices.Compact(ports)
	v.addVerdict(Verdict{
		Cause: CauseOnePath, Since: hits.Since, Until: hits.Until,
		Text: fmt.Sprintf("One of several paths is congested: from %s on, the flows with the UDP source ports %s "+
			"were congested, and %s between the same hosts at the same time were not: %s",
			formatStart(hits), formatList(ports, 6), formatCount(len(spared), "flow"), describeCongestion(hit)),
		Next: "ECMP chooses the path by the source port: check which links these ports hash to, and use more " +
			"ports, or balance by load.",
		Frames: evidenceFrames(hit, congestionKinds(hit...)...),
		Filter: filterCongestion(hit),
	}, hit)
}

// splitByCongestion returns the congested flows between two hosts, and the flows without congestion
// for which it was expected. Both are nil if a source port has flows of both kinds.
func splitByCongestion(all []*flows.Flow) (hit, spared []*flows.Flow) {
	hitFlows, ports := map[*flows.Flow]bool{}, map[uint16]bool{} // of the congested flows
	for _, f := range all {
		if f.Sequenced && !f.Varies.SrcPort && congestionSign(f).Count >= minMarks {
			hit = append(hit, f)
			hitFlows[f], ports[f.SrcPort] = true, true
		}
	}
	if len(hit) == 0 {
		return nil, nil
	}
	hits, requests := congestionSpan(hit)
	var expected uint64 // multiplied by requests
	for _, f := range all {
		switch {
		case hitFlows[f]:
		case ports[f.SrcPort]:
			return nil, nil
		case f.Sequenced && !f.Varies.SrcPort && dscpOf(f) == dscpOf(hit[0]) && congestionSign(f).Count == 0 &&
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
