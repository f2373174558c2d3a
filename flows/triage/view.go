package triage

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
)

// A view is a snapshot prepared for the rules.
type view struct {
	*flows.Snapshot
	flows          []*flows.Flow // flows with evidence, without management
	to, from       groups
	pairs          map[pair]uint64 // CNPs by source and destination that could not be matched to a flow
	verdicts       []Verdict
	end            time.Time                    // of the capture, as far as flows and links show it
	explainedFlows []map[rocev2.FlowKey]bool    // flows with a verdict, by cause
	withoutAnswers map[rocev2.FlowKey]bool      // flows about which all ACKs have a wrong ICRC
	lostToo        map[netip.Addr][]*flows.Flow // flows with losses that belong to trimmed packets, by receiver
	unmatchedACKs  map[pair]bool                // directions of ACKs that could not be matched
	bySourceQP     map[sender]onlyFlow          // flows by addresses and source queue pair, which may be unknown
}

// A sender is a source, a destination and a queue pair of the source.
type sender struct {
	pair
	qp    uint32
	known bool // qp is valid
}

// An onlyFlow is one of n flows.
type onlyFlow struct {
	one *flows.Flow
	n   int
}

// A pair is a source and a destination.
type pair struct{ src, dst netip.Addr }

// groups are groups of flows in the order in which they were found.
type groups []group

type group struct {
	address netip.Addr
	flows   []*flows.Flow
}

func newView(s *flows.Snapshot) *view {
	v := &view{Snapshot: s, pairs: map[pair]uint64{}, explainedFlows: make([]map[rocev2.FlowKey]bool, noCause),
		withoutAnswers: map[rocev2.FlowKey]bool{}, lostToo: map[netip.Addr][]*flows.Flow{},
		unmatchedACKs: map[pair]bool{}, bySourceQP: map[sender]onlyFlow{}}
	for i := range s.Flows {
		if f := &s.Flows[i]; f.Evidence != nil && f.DestQP > 1 {
			v.flows = append(v.flows, f)
		}
	}
	for i := range s.Flows {
		v.extendEnd(s.Flows[i].Last)
	}
	for i := range s.Links {
		for _, sign := range s.Links[i].PauseSigns {
			v.extendEnd(sign.Until)
		}
	}
	v.assignUnpaired()
	for i := range s.Unpaired {
		u := &s.Unpaired[i]
		v.pairs[pair{u.Src, u.Dst}] += u.CNPs + u.FastCNPs
		if u.ACKs > 0 {
			v.unmatchedACKs[pair{u.Src, u.Dst}] = true
		}
	}
	for _, f := range v.flows {
		of := sender{pair{f.Src, f.Dst}, f.SrcQP, true}
		if f.SrcQPFrom == 0 {
			of = sender{pair: of.pair}
		}
		v.bySourceQP[of] = onlyFlow{f, v.bySourceQP[of].n + 1}
	}
	v.to = groupBy(v.flows, destinationOf)
	v.from = groupBy(v.flows, sourceOf)
	return v
}

func (v *view) extendEnd(t time.Time) {
	if t.After(v.end) {
		v.end = t
	}
}

// assignUnpaired adds unmatched CNPs to the only flow that they can be about. A proxy sends CNPs
// from its own address: they are assigned by the source queue pair. CNPs of the receiver are
// assigned if there is a single flow between the two addresses.
func (v *view) assignUnpaired() {
	type end struct {
		addr netip.Addr
		qp   uint32
	}
	bySource, between := map[end][]int{}, map[pair][]int{} // indexes in v.flows
	for i, f := range v.flows {
		between[pair{f.Src, f.Dst}] = append(between[pair{f.Src, f.Dst}], i)
		if f.SrcQPFrom != 0 {
			bySource[end{f.Src, f.SrcQP}] = append(bySource[end{f.Src, f.SrcQP}], i)
		}
	}
	for i := range v.Unpaired {
		u := &v.Unpaired[i]
		candidates, ofReceiver := bySource[end{u.Dst, u.DestQP}], between[pair{u.Dst, u.Src}]
		if len(ofReceiver) > 0 {
			candidates = ofReceiver
		}
		if u.CNP.Count == 0 || !u.WithQP || len(candidates) != 1 ||
			len(ofReceiver) == 1 && v.flows[ofReceiver[0]].SrcQPFrom != 0 {
			continue
		}
		only := candidates[0]
		f, e := *v.flows[only], *v.flows[only].Evidence
		if len(ofReceiver) == 1 {
			*e.Sign(flows.SignCNP) = addSigns(*e.Sign(flows.SignCNP), u.CNP)
		} else {
			*e.Sign(flows.SignNotification) = addSigns(*e.Sign(flows.SignNotification), u.CNP)
			e.Notifiers = append(slices.Clip(e.Notifiers),
				flows.Notifier{From: u.Src, Kind: flows.NoticeProxied, Sign: u.CNP})
		}
		f.Evidence = &e
		v.flows[only] = &f
	}
}

// groupBy groups flows by an address.
func groupBy(all []*flows.Flow, by func(*flows.Flow) netip.Addr) (out groups) {
	at := map[netip.Addr]int{}
	for _, f := range all {
		a := by(f)
		i, ok := at[a]
		if !ok {
			i = len(out)
			at[a] = i
			out = append(out, group{address: a})
		}
		out[i].flows = append(out[i].flows, f)
	}
	return out
}

// groupFlows groups the flows that meet a condition by an address.
func (v *view) groupFlows(by func(*flows.Flow) netip.Addr, holds func(*flows.Flow) bool) groups {
	return groupBy(selectFlows(v.flows, holds), by)
}

// A fan is the flows of one finding: those to one receiver, or those from one source to several
// receivers at the same time.
type fan struct {
	flows    []*flows.Flow
	from, to netip.Addr // the common source and receiver; invalid if there are several
	joined   int        // receivers
}

// joinFans groups the flows that meet a condition by receiver. Receivers of one source only are
// joined if the signs returned by moment overlap: the cause is where their paths are one.
func (v *view) joinFans(holds func(*flows.Flow) bool, moment func(*flows.Flow) flows.Sign) (all []fan) {
	at := map[netip.Addr]int{} // last fan of each single source
	spans := []flows.Sign{}
	for _, g := range v.groupFlows(destinationOf, holds) {
		var span flows.Sign
		for _, f := range g.flows {
			span = addSigns(span, moment(f))
		}
		one := fan{flows: g.flows, to: g.address, joined: 1}
		if countSources(g.flows) == 1 {
			one.from = g.flows[0].Src
			if i, ok := at[one.from]; ok && spansOverlap(spans[i].Since.Add(-sameMoment),
				spans[i].Until.Add(sameMoment),
				span.Since, span.Until) {
				all[i].flows = append(all[i].flows, g.flows...)
				all[i].to = netip.Addr{}
				all[i].joined++
				spans[i] = addSigns(spans[i], span)
				continue
			}
			at[one.from] = len(all)
		}
		all = append(all, one)
		spans = append(spans, span)
	}
	return all
}

// sameMoment is the longest time between two findings with the same cause.
const sameMoment = time.Millisecond

// describe returns the hosts of the flows, as in "from 10.0.0.1 to 200 receivers".
func (f *fan) describe() string {
	if f.to.IsValid() {
		return "to " + f.to.String()
	}
	return "from " + f.from.String() + " to " + formatCount(f.joined, "receiver")
}

func sourceOf(f *flows.Flow) netip.Addr      { return f.Src }
func destinationOf(f *flows.Flow) netip.Addr { return f.Dst }

// countSources returns the number of different sources of flows.
func countSources(all []*flows.Flow) int {
	seen := map[netip.Addr]bool{}
	for _, f := range all {
		seen[f.Src] = true
	}
	return len(seen)
}

// addVerdict adds a verdict about flows.
func (v *view) addVerdict(verdict Verdict, about []*flows.Flow) {
	said := v.explainedFlows[verdict.Cause]
	if said == nil {
		said = map[rocev2.FlowKey]bool{}
		v.explainedFlows[verdict.Cause] = said
	}
	verdict.Joined = max(verdict.Joined, 1)
	for _, f := range about {
		verdict.Flows = append(verdict.Flows, f.FlowKey)
		verdict.Octets += f.Data.IPOctets
		said[f.FlowKey] = true
	}
	slices.SortFunc(verdict.Flows, rocev2.FlowKey.Compare)
	v.verdicts = append(v.verdicts, verdict)
}

// hasCause reports whether f has a verdict with one of these causes.
func (v *view) hasCause(f *flows.Flow, causes ...Cause) bool {
	return slices.ContainsFunc(causes, func(c Cause) bool { return v.explainedFlows[c][f.FlowKey] })
}

// sumSigns returns the sum of the signs of some kinds over flows.
func sumSigns(all []*flows.Flow, kinds ...flows.SignKind) (out flows.Sign) {
	for _, f := range all {
		for _, k := range kinds {
			out = addSigns(out, *f.Evidence.Sign(k))
		}
	}
	return out
}

// sumOf returns the sum of a number over flows.
func sumOf(all []*flows.Flow, number func(*flows.Flow) uint64) (sum uint64) {
	for _, f := range all {
		sum += number(f)
	}
	return sum
}

// selectFlows returns the flows that meet a condition.
func selectFlows(all []*flows.Flow, holds func(*flows.Flow) bool) (out []*flows.Flow) {
	for _, f := range all {
		if holds(f) {
			out = append(out, f)
		}
	}
	return out
}

// addSigns returns the sum of two signs.
func addSigns(a, b flows.Sign) flows.Sign {
	switch {
	case a.Count == 0:
		return b
	case b.Count == 0:
		return a
	}
	a.Count += b.Count
	if b.First < a.First {
		a.First = b.First
	}
	if b.Since.Before(a.Since) {
		a.Since = b.Since
	}
	if b.Last > a.Last {
		a.Last = b.Last
	}
	if b.Until.After(a.Until) {
		a.Until = b.Until
	}
	return a
}

// congestionKinds returns the kinds of signs that show congestion of flows: marks and notifications
// of nodes. If there are neither, because the capture point is before the queue, it returns the
// CNPs of receivers.
func congestionKinds(all ...*flows.Flow) []flows.SignKind {
	var kinds []flows.SignKind
	for _, k := range []flows.SignKind{flows.SignCE, flows.SignNotification} {
		if sumSigns(all, k).Count > 0 {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		kinds = append(kinds, flows.SignCNP)
	}
	return kinds
}

// congestionSign returns the sum of a flow's signs of congestion.
func congestionSign(f *flows.Flow) (s flows.Sign) {
	for _, k := range congestionKinds(f) {
		s = addSigns(s, *f.Evidence.Sign(k))
	}
	return s
}

// spansOverlap reports whether two intervals overlap.
func spansOverlap(since, until, from, to time.Time) bool {
	return !until.Before(from) && !to.Before(since)
}

// isActive reports whether a flow sent packets within an interval.
func isActive(f *flows.Flow, since, until time.Time) bool {
	s := f.Evidence.Sign(flows.SignRequest)
	return spansOverlap(s.Since, s.Until, since, until)
}

// maxFrames is the maximum number of frames in a verdict.
const maxFrames = 8

// evidenceFrames returns the first and the last frame of each sign of some kinds.
func evidenceFrames(all []*flows.Flow, kinds ...flows.SignKind) (out []Frame) {
	for _, f := range all {
		for _, k := range kinds {
			if s := f.Evidence.Sign(k); s.Count > 0 {
				out = append(out, Frame{s.First, k.String()}, Frame{s.Last, k.String()})
			}
		}
	}
	return limitFrames(out)
}

// limitFrames sorts frames and keeps the first ones and the last one.
func limitFrames(all []Frame) []Frame {
	slices.SortStableFunc(all, func(a, b Frame) int { return cmp.Compare(a.Number, b.Number) })
	all = slices.CompactFunc(all, func(a, b Frame) bool { return a.Number == b.Number })
	if len(all) > maxFrames {
		all[maxFrames-1] = all[len(all)-1]
		all = all[:maxFrames]
	}
	return all
}

// dscpOf returns the set of DSCPs of a flow's data.
func dscpOf(f *flows.Flow) uint64 { return f.DSCP | f.Responses.DSCP }
