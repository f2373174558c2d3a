package flows

import "github.com/rocecn/rocecn/bth"

// totalBins is how many bins there are of all flows together.
const totalBins = 2048

// total returns the tally of all flows at a time. Series must be kept.
func (t *Table) total(at int64) *Tally {
	if t.all.tallies == nil {
		t.all = newBins(at, 0, make([]Tally, totalBins))
	}
	t.allEnd = max(t.allEnd, at)
	return &t.all.tallies[t.all.index(at)]
}

// totalled counts what an answer says for all flows, whether or not it is known which
// one it is about.
func (t *Table) totalled(p *Packet, at int64) {
	if !t.config.Series {
		return
	}
	switch p.kind {
	case cnpKind, fastKind:
		t.total(at).CNPs++
	case ppfcKind:
		t.total(at).PPFC++
	case answer:
		if !roles[p.pkt.Opcode].acknowledge || p.noHeaders {
			return
		}
		if kind := p.pkt.Syndrome.Type(); kind == bth.SyndromeNAK || kind == bth.SyndromeRNRNAK {
			t.total(at).refused(kind == bth.SyndromeRNRNAK)
		}
	}
}

// refused records a refusal in the series of the flow that it is about.
func (t *Table) refused(f *flow, r *reply) {
	if kind := r.kind(); kind != bth.SyndromeNAK && kind != bth.SyndromeRNRNAK {
		return
	}
	if s := t.series(f); s != nil {
		s.refused(r)
	}
}

// Totals returns how all flows together went over time, nil without Config.Series
// and while nothing came: CNPs, NAKs and PPFC count there, too, where it is not known
// which flow they are about. It has neither marks nor PSNs.
func (t *Table) Totals() *Series {
	if t.all.tallies == nil {
		return nil
	}
	end := max(t.all.start, t.allEnd)
	return &Series{Start: moment(t.all.start), End: moment(end), Bins: t.all.within(new(bins), end)}
}
