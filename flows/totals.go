package flows

import "github.com/rocecn/rocecn/bth"

// totalBins is the number of bins of all flows together.
const totalBins = 2048

// totalAt returns the tally of all flows at a time. Config.Series must be set.
func (t *Table) totalAt(at int64) *Tally {
	if t.all.tallies == nil {
		t.all = newBins(at, 0, make([]Tally, totalBins))
	}
	t.allEnd = max(t.allEnd, at)
	return &t.all.tallies[t.all.binAt(at)]
}

// countTotal counts an answer for all flows, even if its flow is unknown.
func (t *Table) countTotal(p *Packet, at int64) {
	if !t.config.Series {
		return
	}
	switch p.kind {
	case cnpKind, fastKind:
		t.totalAt(at).CNPs++
	case ppfcKind:
		t.totalAt(at).PPFC++
	case answerKind:
		if !roles[p.pkt.Opcode].acknowledge || p.noHeaders {
			return
		}
		if kind := p.pkt.Syndrome.Type(); kind == bth.SyndromeNAK || kind == bth.SyndromeRNRNAK {
			t.totalAt(at).countNAK(kind == bth.SyndromeRNRNAK)
		}
	}
}

// recordNAK records a NAK in the series of its flow.
func (t *Table) recordNAK(f *flow, r *reply) {
	if kind := r.syndromeType(); kind != bth.SyndromeNAK && kind != bth.SyndromeRNRNAK {
		return
	}
	if s := t.seriesOf(f); s != nil {
		s.recordNAK(r)
	}
}

// Totals returns the series of all flows together, or nil without Config.Series or packets. It
// includes CNPs, NAKs and PPFCs that could not be matched to a flow, but no marks and no PSNs.
func (t *Table) Totals() *Series {
	t.processWaiting()
	if t.all.tallies == nil {
		return nil
	}
	end := max(t.all.start, t.allEnd)
	return &Series{Start: timeOf(t.all.start), End: timeOf(end), Bins: t.all.insertFine(new(bins), end)}
}
