package triage

import (
	"math"
	"math/bits"
	"net/netip"

	"github.com/rocecn/rocecn/flows"
)

// neighbours are the flows to one receiver with judged CNPs, to compare each with those of other sources that have
// the same DSCPs and CNPs at the same time.
type neighbours map[*flows.Flow]*neighbour

// A neighbour is a flow with the sums of the flows that have the same DSCPs and CNPs at the same time.
type neighbour struct {
	source   int     // number of its source, from 1
	all      cnpSums // of flows of all sources
	ofSource cnpSum  // of flows of the same source
}

func newNeighbours(all []*flows.Flow) neighbours {
	type dscpSource struct {
		dscp uint64
		src  netip.Addr
	}
	n, sources := neighbours{}, map[netip.Addr]int{}
	ofDSCP, ofSource := map[uint64][]*flows.Flow{}, map[dscpSource][]*flows.Flow{}
	for _, f := range all {
		if f.Evidence.Control.Judged == 0 {
			continue
		}
		if sources[f.Src] == 0 {
			sources[f.Src] = len(sources) + 1
		}
		n[f] = &neighbour{source: sources[f.Src]}
		dscp := dscpOf(f)
		own := dscpSource{dscp, f.Src}
		ofDSCP[dscp], ofSource[own] = append(ofDSCP[dscp], f), append(ofSource[own], f)
	}
	for _, list := range ofDSCP {
		for i, s := range mergeCNPs(list, func(f *flows.Flow) cnpSums { return sumCNPs(f, n[f].source) }) {
			n[list[i]].all = s
		}
	}
	for _, list := range ofSource {
		for i, s := range mergeCNPs(list, sumJudged) {
			n[list[i]].ofSource = s
		}
	}
	return n
}

// mergeCNPs returns for each flow the merged values of all flows with CNPs at the same time.
func mergeCNPs[V any, P mergeable[V]](all []*flows.Flow, valueOf func(*flows.Flow) V) []V {
	signs, values := make([]flows.Sign, len(all)), make([]V, len(all))
	for i, f := range all {
		signs[i], values[i] = cnpSign(f), valueOf(f)
	}
	return mergeOverlapping[V, P](signs, values)
}

// slowedMore reports whether a flow did not slow down while its neighbours, the flows of other sources to the same
// receiver, did.
func (n neighbours) slowedMore(f *flows.Flow) bool {
	own := &f.Evidence.Control
	if own.Judged < minJudged || float64(own.Slowed) > mostSlowed*float64(own.Judged) {
		return false
	}
	others := n[f].all.subtract(&n[f].ofSource)
	return others.judged >= minJudged && float64(others.slowed) >= leastSlowed*float64(others.judged) &&
		own.After*float64(others.judged) >= rateSpared*others.after.toFloat()
}

// areSlower reports whether a flow kept a rate of more than twice that of its neighbours, the flows of other
// sources to the same receiver, although it had at least as many CNPs in the same time, and at least two of
// these sources came down from a higher rate.
func (n neighbours) areSlower(f *flows.Flow) bool {
	own, span := &f.Evidence.Control, cnpSign(f)
	if own.Judged < minCompared || span.Until.Sub(span.Since) < minTogether || own.After < leastKept*own.Before {
		return false
	}
	others, source := &n[f].all, n[f].source
	return others.cnpRate.valueWithout(source) <= cnpRateOf(&span) &&
		own.After >= rateAbove*others.fastest.valueWithout(source) && others.cameDown.countWithout(source) >= 2
}

// A cnpSum is the sum of the judged CNPs of flows.
type cnpSum struct {
	judged, slowed uint64
	after          sum128 // rates after CNPs, rounded to bit/s
}

func sumJudged(f *flows.Flow) cnpSum {
	c := &f.Evidence.Control
	s := cnpSum{judged: c.Judged, slowed: c.Slowed}
	s.after.high, s.after.low = bits.Mul64(uint64(math.Round(c.After)), c.Judged)
	return s
}

func (s *cnpSum) merge(o *cnpSum) {
	s.judged, s.slowed = s.judged+o.judged, s.slowed+o.slowed
	s.after.add(o.after)
}

func (s cnpSum) subtract(o *cnpSum) cnpSum {
	s.judged, s.slowed = s.judged-o.judged, s.slowed-o.slowed
	s.after.subtract(o.after)
	return s
}

// A sum128 is an integer sum, so that subtraction leaves no rounding error.
type sum128 struct{ high, low uint64 }

func (s *sum128) add(o sum128) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, o.low, 0)
	s.high, _ = bits.Add64(s.high, o.high, carry)
}

func (s *sum128) subtract(o sum128) {
	var borrow uint64
	s.low, borrow = bits.Sub64(s.low, o.low, 0)
	s.high, _ = bits.Sub64(s.high, o.high, borrow)
}

func (s sum128) toFloat() float64 { return math.Ldexp(float64(s.high), 64) + float64(s.low) }

// cnpSums are the sum of the judged CNPs of flows, and the extremes of those with at least minJudged of them.
type cnpSums struct {
	cnpSum
	fastest  highest     // rates after CNPs
	cnpRate  highest     // CNPs per nanosecond
	cameDown someSources // sources with a flow that came down from a higher rate
}

func sumCNPs(f *flows.Flow, source int) cnpSums {
	c, span := &f.Evidence.Control, cnpSign(f)
	s := cnpSums{cnpSum: sumJudged(f)}
	if c.Judged < minJudged {
		return s
	}
	s.fastest = highest{source: source, value: c.After}
	s.cnpRate = highest{source: source, value: cnpRateOf(&span)}
	if c.After <= mostKept*c.Fastest {
		s.cameDown[0] = source
	}
	return s
}

func (s *cnpSums) merge(o *cnpSums) {
	s.cnpSum.merge(&o.cnpSum)
	s.fastest.merge(&o.fastest)
	s.cnpRate.merge(&o.cnpRate)
	s.cameDown.merge(&o.cameDown)
}

// cnpRateOf returns the CNPs per nanosecond from the first one to the last one.
func cnpRateOf(s *flows.Sign) float64 {
	lasted := s.Until.Sub(s.Since)
	if lasted <= 0 {
		return math.Inf(1)
	}
	return float64(s.Count) / float64(lasted)
}
