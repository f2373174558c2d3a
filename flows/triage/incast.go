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
	minSenders     = 3                      // make an incast
	sameCongestion = 100 * time.Microsecond // two notifications so far apart are about the same congestion
	minExpected    = 10                     // that others' share says a flow should have, until its having none counts
)

// findIncast: several senders sent to one receiver at once, and what was marked or notified about is what they sent.
//
// Evidence: flows from three sources or more to one receiver met congestion, and there is a time at which all of them
// did.
//
// Counter-evidence: other sources whose flows to the same receiver met none at that time though they sent enough: then
// it is not the receiver. Flows of the same sources to other receivers that met it, too: then it is where they come
// from, or between. Flows of the same two hosts of which some met it and others not: then it is one of several paths.
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
		c := candidate{group: group{g.of, at}}
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
		of[g.of] = true
	}
	for i := range all {
		c := &all[i]
		from := map[netip.Addr]bool{}
		for _, f := range c.flows {
			from[f.Src] = true
		}
		elsewhere := map[netip.Addr]bool{} // sources with flows that met congestion on the way to others, too
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
			Cause: CauseIncast, Party: c.of.String(), Since: c.hits.Since, Until: c.hits.Until,
			Text: fmt.Sprintf("%d senders sent to %v at once, %s, from %s on: %s", len(from), c.of,
				formatCount(len(c.flows), "flow"), formatStart(c.hits), describeCongestion(c.flows)),
			Next: "Look at the queue of the last switch's port to this receiver, and at who makes all of them send " +
				"to it at the same time.",
			Frames: evidenceFrames(c.flows, congestionKinds(c.flows...)...),
			Filter: filterCongestion(c.flows),
		}, c.flows)
	}
}

// describeCongestion says in a sentence how flows met congestion.
func describeCongestion(all []*flows.Flow) string {
	requests := sumSigns(all, flows.SignRequest)
	var parts []string
	for _, k := range congestionKinds(all...) {
		switch n := sumSigns(all, k).Count; k {
		case flows.SignCE:
			parts = append(parts, fmt.Sprintf("%d came with CE (%s)", n, formatShare(n, requests.Count)))
		case flows.SignNotification:
			parts = append(parts, "nodes on the way sent "+formatCount(n, "notification"))
		default:
			parts = append(parts, "the receiver sent "+formatCount(n, "CNP"))
		}
	}
	return fmt.Sprintf("of %s, %s.", formatCount(requests.Count, "packet"), strings.Join(parts, ", and "))
}

// filterCongestion writes the filter for the signs of congestion of flows to one address.
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

// filterNotifiers selects what the nodes sent that notified about flows.
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

// busiestFlows returns the flows that met congestion around the moment at which most sources did.
func busiestFlows(all []*flows.Flow) (most []*flows.Flow) {
	type change struct {
		at  time.Time
		by  int // 1: a flow begins to meet congestion; -1: it ends
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

// congestionSpan returns how often and when flows met congestion, and how many requests they sent.
func congestionSpan(all []*flows.Flow) (hits flows.Sign, requests uint64) {
	for _, f := range all {
		hits = addSigns(hits, congestionSign(f))
		requests += f.Packets
	}
	return hits, requests
}

// requestsDuring returns how many of a flow's requests came while there was a sign, as if they had come evenly.
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
