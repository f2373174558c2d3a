package triage

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// neighbours are the flows to one receiver with judged CNPs, to compare each with those of other sources that have
// the same DSCPs and CNPs at the same time.
type neighbours struct {
	ofAll    map[uint64]*cnpSums      // by DSCPs
	ofSource map[dscpSource]*cnpSums  // by DSCPs and source
	fastest  map[uint64][]*flows.Flow // with at least minJudged CNPs, those with the highest rate after CNPs first
}

type dscpSource struct {
	dscp uint64
	src  netip.Addr
}

func newNeighbours(all []*flows.Flow) *neighbours {
	n := &neighbours{map[uint64]*cnpSums{}, map[dscpSource]*cnpSums{}, map[uint64][]*flows.Flow{}}
	for _, f := range all {
		if f.Evidence.Control.Judged == 0 {
			continue
		}
		dscp := dscpOf(f)
		own := dscpSource{dscp, f.Src}
		if n.ofAll[dscp] == nil {
			n.ofAll[dscp] = new(cnpSums)
		}
		if n.ofSource[own] == nil {
			n.ofSource[own] = new(cnpSums)
		}
		n.ofAll[dscp].addFlow(f)
		n.ofSource[own].addFlow(f)
		if f.Evidence.Control.Judged >= minJudged {
			n.fastest[dscp] = append(n.fastest[dscp], f)
		}
	}
	for _, s := range n.ofAll {
		s.sumUp()
	}
	for _, s := range n.ofSource {
		s.sumUp()
	}
	for _, list := range n.fastest {
		slices.SortStableFunc(list, func(a, b *flows.Flow) int {
			return cmp.Compare(b.Evidence.Control.After, a.Evidence.Control.After)
		})
	}
	return n
}

// slowedMore reports whether a flow did not slow down while its neighbours, the flows of other sources to the same
// receiver, did.
func (n *neighbours) slowedMore(f *flows.Flow) bool {
	own := &f.Evidence.Control
	if own.Judged < minJudged || float64(own.Slowed) > mostSlowed*float64(own.Judged) {
		return false
	}
	span := cnpSign(f)
	others := n.ofAll[dscpOf(f)].during(span)
	others.subtract(n.ofSource[dscpSource{dscpOf(f), f.Src}].during(span))
	return others.judged >= minJudged && float64(others.slowed) >= leastSlowed*float64(others.judged) &&
		own.After*float64(others.judged) >= rateSpared*others.after
}

// areSlower reports whether a flow kept a rate of more than twice that of its neighbours, the flows of other
// sources to the same receiver, although it had at least as many CNPs in the same time, and at least two of
// these sources came down from a higher rate.
func (n *neighbours) areSlower(f *flows.Flow) bool {
	own, span := &f.Evidence.Control, cnpSign(f)
	lasted := span.Until.Sub(span.Since)
	if own.Judged < minCompared || lasted < minTogether || own.After < leastKept*own.Before {
		return false
	}
	sources := map[netip.Addr]bool{}
	for _, o := range n.fastest[dscpOf(f)] { // the first one decides, unless the flow is the fastest
		if o.Src == f.Src {
			continue
		}
		c, s := &o.Evidence.Control, cnpSign(o)
		if !spansOverlap(s.Since, s.Until, span.Since, span.Until) {
			continue
		}
		more := float64(s.Count)*float64(lasted) > float64(span.Count)*float64(s.Until.Sub(s.Since))
		if more || own.After < rateAbove*c.After {
			return false
		}
		if c.After <= mostKept*c.Fastest {
			sources[o.Src] = true
		}
	}
	return len(sources) >= 2
}

// A cnpSum is the sum of the judged CNPs of flows.
type cnpSum struct {
	judged, slowed uint64
	after          float64 // rates after CNPs
}

func (s *cnpSum) add(o cnpSum) {
	s.judged, s.slowed, s.after = s.judged+o.judged, s.slowed+o.slowed, s.after+o.after
}

func (s *cnpSum) subtract(o cnpSum) {
	s.judged, s.slowed, s.after = s.judged-o.judged, s.slowed-o.slowed, s.after-o.after
}

// cnpSums have the sum of the flows of which the CNPs come before, during or after an interval.
type cnpSums struct {
	all              []cnpSpan
	bySince, byUntil []timedSum // in order of time, with the sums up to each
	stepped          bool       // the CNPs of a flow end before they begin, as the clock was set back
}

// A cnpSpan has the CNPs of one flow.
type cnpSpan struct {
	flows.Sign
	cnpSum
}

type timedSum struct {
	at time.Time
	cnpSum
}

func (s *cnpSums) addFlow(f *flows.Flow) {
	c, span := &f.Evidence.Control, cnpSign(f)
	one := cnpSum{c.Judged, c.Slowed, c.After * float64(c.Judged)}
	s.all = append(s.all, cnpSpan{span, one})
	s.stepped = s.stepped || span.Until.Before(span.Since)
	s.bySince = append(s.bySince, timedSum{span.Since, one})
	s.byUntil = append(s.byUntil, timedSum{span.Until, one})
}

// sumUp prepares the sums after the last flow was added.
func (s *cnpSums) sumUp() {
	for _, list := range [...][]timedSum{s.bySince, s.byUntil} {
		slices.SortFunc(list, func(a, b timedSum) int { return a.at.Compare(b.at) })
		var sum cnpSum
		for i := range list {
			sum.add(list[i].cnpSum)
			list[i].cnpSum = sum
		}
	}
}

// during returns the sum of the flows with CNPs during a sign: those that begin before its end, without those that
// end before its beginning.
func (s *cnpSums) during(sign flows.Sign) (sum cnpSum) {
	if s.stepped || sign.Until.Before(sign.Since) {
		for _, one := range s.all {
			if spansOverlap(one.Since, one.Until, sign.Since, sign.Until) {
				sum.add(one.cnpSum)
			}
		}
		return sum
	}
	if n := sort.Search(len(s.bySince), func(i int) bool { return s.bySince[i].at.After(sign.Until) }); n > 0 {
		sum = s.bySince[n-1].cnpSum
	}
	if n := sort.Search(len(s.byUntil), func(i int) bool { return !s.byUntil[i].at.Before(sign.Since) }); n > 0 {
		sum.subtract(s.byUntil[n-1].cnpSum)
	}
	return sum
}
