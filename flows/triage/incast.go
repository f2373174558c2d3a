package triage

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/flows"
)

const (
	minSenders     = 3                      // minimum number of senders in an incast
	sameCongestion = 100 * time.Microsecond // signs at most this far apart belong to the same congestion
	minExpected    = 10                     // expected signs of a flow for their absence to be significant
)

const separateQueues = "separate queues on the paths of its senders"

// findIncast finds receivers to which several senders send at the same time and congest the path.
//
// Evidence: flows from three or more sources to one receiver are congested at the same time.
//
// Counter-evidence: other sources with enough packets to the receiver at that time and no
// congestion: the receiver's link is not the cause. Flows of the same sources to other receivers
// that are congested as well: the cause is at the sources or between. Flows between the same two
// hosts of which only some are congested: the cause is one of several paths.
func findIncast(v *view) {
	type candidate struct {
		group
		hits flows.Sign
	}
	var all []candidate
	of := map[netip.Addr]bool{}
	for _, g := range v.to {
		var hit []*flows.Flow
		for _, f := range g.flows {
			if n := congestionSign(f).Count; n >= minMarks || n > 0 && congestionKinds(f)[0] != flows.SignCE {
				hit = append(hit, f)
			}
		}
		at := busiestFlows(hit)
		if countSources(at) < minSenders {
			continue
		}
		c := candidate{group: group{g.address, at}}
		var total uint64
		c.hits, total = congestionSpan(at)
		spared := map[netip.Addr]bool{}
		for _, f := range g.flows {
			if s := congestionSign(f); s.Count == 0 && requestsDuring(f, &c.hits)*c.hits.Count >= minExpected*total {
				spared[f.Src] = true
			}
		}
		if len(spared)*4 > countSources(at) {
			continue
		}
		all = append(all, c)
		of[g.address] = true
	}
	for i := range all {
		c := &all[i]
		from := map[netip.Addr]bool{}
		for _, f := range c.flows {
			from[f.Src] = true
		}
		elsewhere := map[netip.Addr]bool{} // sources with congested flows to other receivers
		for _, f := range v.flows {
			s := congestionSign(f)
			if from[f.Src] && !of[f.Dst] && s.Count >= minMarks &&
				spansOverlap(s.Since, s.Until, c.hits.Since, c.hits.Until) {
				elsewhere[f.Src] = true
			}
		}
		if len(elsewhere)*4 > len(from) {
			continue
		}
		v.addVerdict(Verdict{
			Cause: CauseIncast, Suspects: []string{c.address.String(), separateQueues}, Since: c.hits.Since,
			Until: c.hits.Until,
			Text: fmt.Sprintf("%d senders sent to %v at the same time, in %s, from %s on: %s", len(from), c.address,
				formatCount(len(c.flows), "flow"), formatStart(c.hits), describeCongestion(c.flows)),
			Next: "Check the queue of the last switch's port to this receiver, and the application that makes all " +
				"of them send at the same time.",
			Frames: evidenceFrames(c.flows, congestionKinds(c.flows...)...),
			Filter: filterCongestion(c.flows),
		}, c.flows)
	}
}

// describeCongestion returns a sentence with the signs of congestion of flows.
func describeCongestion(all []*flows.Flow) string {
	requests := sumSigns(all, flows.SignRequest)
	var parts []string
	for _, k := range congestionKinds(all...) {
		switch n := sumSigns(all, k).Count; k {
		case flows.SignCE:
			parts = append(parts, fmt.Sprintf("%d had CE (%s)", n, formatShare(n, requests.Count)))
		case flows.SignNotification:
			parts = append(parts, "nodes on the path sent "+formatCount(n, "notification"))
		default:
			parts = append(parts, "the receiver sent "+formatCount(n, "CNP"))
		}
	}
	return fmt.Sprintf("of %s, %s.", formatCount(requests.Count, "packet"), strings.Join(parts, ", and "))
}

// filterCongestion selects the signs of congestion of flows to one address.
func filterCongestion(all []*flows.Flow) string {
	var terms []string
	to := all[0].Dst
	for _, k := range congestionKinds(all...) {
		switch k {
		case flows.SignCE:
			terms = append(terms, joinAnd(filterRequests(all), filterECN(to, 3)))
		case flows.SignNotification:
			terms = append(terms, joinAnd(filterNotifiers(all), filterFrames(sumSigns(all, k))))
		default:
			terms = append(terms, joinAnd(filterHosts(all), anyCNP))
		}
	}
	if len(terms) == 1 {
		return terms[0]
	}
	return "(" + strings.Join(terms, ") || (") + ")"
}

// filterNotifiers selects packets of the nodes that sent notifications about flows.
func filterNotifiers(all []*flows.Flow) string {
	seen := map[netip.Addr]bool{}
	var terms []string
	for _, f := range all {
		for _, n := range f.Evidence.Notifiers {
			if n.Kind != flows.NoticeCNP && !seen[n.From] {
				seen[n.From] = true
				terms = append(terms, filterAddress("src", n.From))
			}
		}
	}
	if len(terms) > maxTerms {
		return "udp"
	}
	return joinOr(terms...)
}

// busiestFlows returns the flows that are congested at the time with the most congested sources.
func busiestFlows(all []*flows.Flow) (most []*flows.Flow) {
	type change struct {
		at  time.Time
		by  int // 1 at the start of a flow's congestion, -1 at its end
		src netip.Addr
	}
	var changes []change
	spans := make([]flows.Sign, len(all))
	for i, f := range all {
		s := congestionSign(f)
		s.Since, s.Until = s.Since.Add(-sameCongestion), s.Until.Add(sameCongestion)
		spans[i] = s
		changes = append(changes, change{s.Since, 1, f.Src}, change{s.Until, -1, f.Src})
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), b.by-a.by) })
	best, at, now := 0, time.Time{}, map[netip.Addr]int{}
	for _, c := range changes {
		if now[c.src] += c.by; now[c.src] == 0 {
			delete(now, c.src)
		}
		if len(now) > best {
			best, at = len(now), c.at
		}
	}
	for i, f := range all {
		if spansOverlap(spans[i].Since, spans[i].Until, at, at) {
			most = append(most, f)
		}
	}
	return most
}

// congestionSpan returns the signs of congestion of flows, and the number of their requests.
func congestionSpan(all []*flows.Flow) (hits flows.Sign, requests uint64) {
	for _, f := range all {
		hits = addSigns(hits, congestionSign(f))
		requests += f.Data.Packets
	}
	return hits, requests
}

// requestsDuring estimates the number of a flow's requests during a sign, assuming a constant rate.
func requestsDuring(f *flows.Flow, sign *flows.Sign) uint64 {
	s := f.Evidence.Sign(flows.SignRequest)
	from, to := s.Since, s.Until
	if from.Before(sign.Since) {
		from = sign.Since
	}
	if to.After(sign.Until) {
		to = sign.Until
	}
	all, part := s.Until.Sub(s.Since), to.Sub(from)
	switch {
	case part < 0:
		return 0
	case all <= 0:
		return s.Count
	}
	return uint64(float64(s.Count) * float64(part) / float64(all))
}
