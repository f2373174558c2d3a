package flows

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/qplearn"
)

// Of a connection in a sample, hardly an acknowledgement has the PSN of a captured request, so that the
// map learns no pair. But acknowledgements follow the PSNs of their requests: if those to only one queue
// pair fit a flow between the same hosts, and they fit only this flow, the two are a pair.

// Thresholds of pairSampled.
const (
	minSampledReplies = 3  // answers that fit
	sampledReach      = 64 // captured packets before the first and after the last request, for the PSNs of answers

	// Flows between the same addresses: if there are more, none of them is paired, as each has to be compared with
	// the answers of each queue pair.
	maxSampledFlows = 1 << 10
)

// pairSampled pairs the flows and the answers of a sample of which about 1 packet in n was captured.
func (t *Table) pairSampled(n uint64) {
	flows := map[key][]*stream{} // without a partner, by addresses
	for id := range t.streams.All() {
		s := t.streams.Value(id)
		k := t.keyOfStream(s)
		if s.flow.Packets > 0 && t.partnerOf(s) == nil && hasSequence(s.flow.Transport, k.QP) {
			flows[k.WithQP(0)] = append(flows[k.WithQP(0)], s)
		}
	}
	matches := map[*stream][]*stream{} // answers that fit a flow
	for id := range t.streams.All() {
		s := t.streams.Value(id)
		e := t.earlies.lookUp(s.early)
		if e == nil || t.partnerOf(s) != nil {
			continue
		}
		between := flows[t.keyOfStream(s).Reversed(0)]
		if len(between) > maxSampledFlows {
			continue
		}
		var fits []*stream
		for _, f := range between {
			if e.fits(&f.flow.sequence, uint32(min(n*sampledReach, connectionDistance))) {
				fits = append(fits, f)
			}
		}
		if len(fits) == 1 {
			matches[fits[0]] = append(matches[fits[0]], s)
		}
	}
	for id := range t.streams.All() { // in a fixed order
		f := t.streams.Value(id)
		if all := matches[f]; len(all) == 1 {
			t.joinStreams(f, all[0], qplearn.BasisVotes)
		}
	}
}

// fits reports whether the answers may be about the requests of a sequence: their PSNs do not fall, and are
// at most reach away from those of the requests.
func (e *earlyReplies) fits(q *sequence, reach uint32) bool {
	if !q.seen {
		return false
	}
	first, span := q.low-reach, uint32(bth.ComparePSN(q.next, q.low))+2*reach
	n, previous := 0, first
	for i := e.n - min(e.n, maxEarly); i != e.n; i++ {
		r := &e.kept[i%maxEarly]
		if roles[r.opcode].kind != answerKind {
			continue
		}
		if (r.psn-first)&bth.MaxPSN > span || bth.ComparePSN(r.psn, previous) < 0 {
			return false
		}
		previous = r.psn
		n++
	}
	return n >= minSampledReplies
}
