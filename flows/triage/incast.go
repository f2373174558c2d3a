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
// Marks on separate paths give the same picture, so the receiver is named only if the evidence is about
// its own port: the load of the port while packets are marked, or signs of congestion of all sources in
// the same moments, again and again; see [view.judgePort]. If the port has free capacity meanwhile,
// there is no incast.
//
// Also excluded by: other sources with enough packets to the receiver at that time and no
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
	congested := map[netip.Addr]*spans{} // congestion of flows to other receivers, by source
	for _, f := range v.flows {
		if s := congestionSign(f); !of[f.Dst] && s.Count >= minMarks {
			if congested[f.Src] == nil {
				congested[f.Src] = new(spans)
			}
			congested[f.Src].add(s.Since, s.Until)
		}
	}
	for i := range all {
		c := &all[i]
		from := map[netip.Addr]bool{}
		for _, f := range c.flows {
			from[f.Src] = true
		}
		own, why := v.judgePort(c.flows)
		if own < 0 {
			continue
		}
		elsewhere := 0 // sources with congested flows to other receivers
		for src := range from {
			if congested[src].overlaps(c.hits.Since, c.hits.Until) {
				elsewhere++
			}
		}
		if elsewhere*4 > len(from) {
			continue
		}
		verdict := Verdict{
			Cause: CauseIncast, Joined: len(from), Suspects: []string{c.address.String(), separateQueues},
			Since: c.hits.Since, Until: c.hits.Until,
			Text: fmt.Sprintf("%d senders send to %v at the same time, in %s, from %s on: %s", len(from), c.address,
				formatCount(len(c.flows), "flow"), formatStart(c.hits), describeCongestion(c.flows)+why),
			Next: "Check the queue of the last switch's port to this receiver, and the application that makes all " +
				"of them send at the same time.",
			Frames: evidenceFrames(c.flows, congestionKinds(c.flows...)...),
			Filter: filterCongestion(c.flows),
		}
		if own > 0 {
			verdict.Party, verdict.Suspects = c.address.String(), nil
			verdict.Excluded = []string{separateQueues}
		}
		v.addVerdict(verdict, c.flows)
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
	}
	return hits, sumOf(all, func(f *flows.Flow) uint64 { return f.Data.Packets })
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

// Thresholds of the evidence about the port of a receiver. A port with a queue sends without pauses, so
// its load is near 1; one that is fed by slower links has a load well below.
const (
	fullPort   = 0.75
	freePort   = 0.3
	minMoments = 3   // moments in which sources are congested together
	together   = 0.6 // share of the moments of a source in which two thirds of the others are congested
	byChance   = 0.3 // greatest share of the time that is in moments of a source
)

// judgePort returns 1 if congestion is that of the receiver's port, -1 if it is not, 0 if that is
// unknown, and the reason as a sentence.
func (v *view) judgePort(all []*flows.Flow) (own int, why string) {
	load := all[0].Evidence.PortLoad
	switch {
	case v.Capture.Sampled > 0: // it does not show which packets came in the same moments
		return -1, ""
	case load >= fullPort:
		return 1, fmt.Sprintf(" While packets were marked, the receiver's port was at %.0f %% of its rate.",
			min(100*load, 100))
	}
	free := load > 0 && load < freePort
	unknown := 0 // the result without signs of congestion in the same moments
	if free {
		unknown = -1
	}
	var ofSources [][]flows.Episode
	for _, g := range groupBy(all, sourceOf) {
		ofSources = append(ofSources, mergeEpisodes(g.flows))
	}
	for _, own := range ofSources {
		if len(own) < minMoments || coveredShare(own) > byChance {
			return unknown, ""
		}
	}
	moments, joint := 0, 0
	for _, near := range countTogether(ofSources) {
		moments++
		if near*3 >= (len(ofSources)-1)*2 {
			joint++
		}
	}
	if float64(joint) >= together*float64(moments) {
		if free { // of a port of this rate, or of a mirror that sends faster than the port
			return 0, " The receiver's port seems to have free capacity."
		}
		return 1, fmt.Sprintf(" In %d of %d moments, most of the senders were congested together.", joint, moments)
	}
	return -1, ""
}

// mergeEpisodes returns the episodes of the flows of a source in order of time, without those within which the clock
// was set back.
func mergeEpisodes(all []*flows.Flow) (out []flows.Episode) {
	for _, f := range all {
		out = append(out, f.Evidence.Episodes...)
	}
	out = slices.DeleteFunc(out, func(e flows.Episode) bool { return e.Until.Before(e.Since) })
	slices.SortFunc(out, func(a, b flows.Episode) int { return a.Since.Compare(b.Since) })
	n := 0
	for _, e := range out {
		if n > 0 && !e.Since.After(out[n-1].Until.Add(sameCongestion)) {
			if e.Until.After(out[n-1].Until) {
				out[n-1].Until = e.Until
			}
			continue
		}
		out[n] = e
		n++
	}
	return out[:n]
}

// coveredShare returns the share of the time from the first episode to the last that is in episodes or
// near them.
func coveredShare(all []flows.Episode) float64 {
	var sum time.Duration
	for _, e := range all {
		sum += e.Until.Sub(e.Since) + 2*sameCongestion
	}
	return float64(sum) / float64(all[len(all)-1].Until.Sub(all[0].Since)+2*sameCongestion)
}
