package flows

import (
	"slices"

	"github.com/rocecn/rocecn/bth"
)

// trimmings are the last packets of a flow that a switch trimmed. It is allocated for flows with such
// packets only.
type trimmings struct {
	ring []trimming // at most maxTrimmed
	n    uint64     // packets stored so far
	// Of overwritten packets as well; see Flow.
	recovered uint64
	episodes  []sign // at most maxEpisodes, with Config.Evidence
}

// A trimming is a packet that a switch trimmed.
type trimming struct {
	psn        uint32
	connection uint64 // of a request: PSN.Connections of its flow, at least 1; 0 for a response
	nak        bool   // a NAK with its PSN came after it
	recovered  bool   // a NAK with its PSN, or a retransmission, came after it
}

// maxTrimmed is the number of trimmed packets remembered for each flow. The oldest one is overwritten.
const maxTrimmed = 32

func (r *trimmings) stored() []trimming {
	if r == nil {
		return nil
	}
	return r.ring
}

// observeTrimmed records a packet that a switch trimmed because its queue was full. The packet is lost:
// it counts for its flow and takes no part in the sequence of its requests.
func (t *Table) observeTrimmed(p *Packet, frame uint64, at int64) {
	t.capture.trimmed++
	if !t.ownsShard(&p.pkt.Flow) {
		return
	}
	s := t.streamOf(&p.pkt.Flow)
	f := t.addFlow(s)
	t.beginLost(s, p, at)
	f.Trimmed++
	r := t.trimmings.allocate(&f.trimmings)
	one := trimming{psn: p.pkt.PSN, connection: max(f.sequence.counts.Connections, 1)}
	if roles[p.pkt.Opcode].isResponse() {
		one.connection = 0
	}
	if len(r.ring) < maxTrimmed {
		r.ring = append(r.ring, one)
	} else {
		r.ring[r.n%maxTrimmed] = one
	}
	r.n++
	if e := t.evidenceOf(f); e != nil {
		e.signs[SignTrimmed].addFrame(frame, at)
		r.addToEpisode(frame, at)
	}
}

// beginLost prepares the flow of a lost packet, of which no other packet may have been captured.
func (t *Table) beginLost(s *stream, p *Packet, at int64) {
	f := t.addFlow(s)
	if f.hasData() {
		return
	}
	t.beginData(s)
	f.first, f.last = at, at
	f.Transport = p.pkt.Opcode.Transport()
	f.recordHeaders(p)
	t.learnSource(s)
}

// addToEpisode adds a packet to the last episode, or to a new one if it comes more than sameEpisode later. If there are
// too many episodes, the two with the shortest time between them become one.
func (r *trimmings) addToEpisode(frame uint64, at int64) {
	n := len(r.episodes)
	if n == 0 || at-r.episodes[n-1].until > sameEpisode || r.episodes[n-1].until-at > sameEpisode {
		r.episodes = append(r.episodes, sign{})
		n++
	}
	r.episodes[n-1].addFrame(frame, at)
	if n <= maxEpisodes {
		return
	}
	closest := 0
	for i := range n - 1 {
		if r.episodes[i+1].since-r.episodes[i].until < r.episodes[closest+1].since-r.episodes[closest].until {
			closest = i
		}
	}
	one, next := &r.episodes[closest], r.episodes[closest+1]
	one.count, one.last, one.until = one.count+next.count, next.last, next.until
	r.episodes = slices.Delete(r.episodes, closest+1, closest+2)
}

// toTrimmings returns the episodes.
func (r *trimmings) toTrimmings() (out []Sign) {
	if r != nil {
		for i := range r.episodes {
			out = append(out, r.episodes[i].toSign())
		}
	}
	return out
}

// nakTrimmed matches a NAK with PSN p with the packet that a switch trimmed.
func (t *Table) nakTrimmed(f *flow, p uint32, frame uint64, at int64) {
	r := t.trimmings.lookUp(f.trimmings)
	all := r.stored()
	for i := range all {
		if one := &all[i]; one.psn == p && one.connection == f.sequence.counts.Connections && !one.nak {
			one.nak = true
			r.recover(one)
			if e := t.evidenceOf(f); e != nil {
				e.signs[SignTrimmedNAK].addFrame(frame, at)
			}
			return
		}
	}
}

// retransmitTrimmed matches the packets that a switch trimmed with a retransmission that has n PSNs from p on: a
// request of a connection, or a response for connection 0, as its PSNs are those of the other direction.
func (t *Table) retransmitTrimmed(f *flow, connection uint64, p, n uint32) {
	r := t.trimmings.lookUp(f.trimmings)
	all := r.stored()
	for i := range all {
		one := &all[i]
		if d := bth.ComparePSN(one.psn, p); d >= 0 && uint32(d) < n && one.connection == connection {
			r.recover(one)
		}
	}
}

func (r *trimmings) recover(one *trimming) {
	if !one.recovered {
		one.recovered = true
		r.recovered++
	}
}

// judgeTrimmed judges the skipped PSNs of trimmed packets as lost where no answer shows it.
func (t *Table) judgeTrimmed(f *flow, h *history, psn *PSN) {
	all := t.trimmings.lookUp(f.trimmings).stored()
	if h == nil || len(all) == 0 {
		return
	}
	counted := map[uint32]bool{}
	for i := range all {
		p := all[i].psn
		if all[i].connection != f.sequence.counts.Connections || counted[p] || f.sequence.isCovered(p) {
			continue
		}
		for _, gap := range h.gaps.all[:h.gaps.n] {
			if gap.contains(p) && !gap.answered && psn.Unjudged > 0 {
				counted[p] = true
				psn.Unjudged--
				psn.Lost++
			}
		}
	}
}
