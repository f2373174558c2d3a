package inspect

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/qpmap"
)

// learnPairs updates the known queue pairs with a packet, and finds the sender's queue pair of this packet: from the
// DETH, or from earlier packets.
func (l *recordDecoder) learnPairs(f *finding) {
	if l.pairs == nil || f.packet == nil || f.kind != message.KindData && f.kind != message.KindAck {
		return
	}
	p := f.packet
	l.pairs.Observe(p, 0, f.record.Time)
	if p.BTH.Present.Has(bth.HasDETH) {
		f.source = qpmap.Pair{SrcQP: p.BTH.DETH.SrcQP, From: qpmap.BasisUD}
		return
	}
	flow, _ := p.FlowKey() // data and acknowledgements have one
	f.source, f.sourceErr = l.pairs.SourceQP(qpmap.Key{FlowKey: flow}, f.record.Time)
}

// printSourceQP prints the sender's queue pair and how it is known.
func (p *humanPrinter) printSourceQP(f *finding) {
	switch {
	case f.source.From != 0:
		p.line = appendHex(p.line, " from=0x", uint64(f.source.SrcQP), 6)
		p.line = append(append(append(p.line, " ("...), f.source.From.String()...), ')')
	case f.sourceErr == qpmap.ErrAmbiguous:
		p.line = append(p.line, " from=ambiguous"...)
	}
}

func appendSourceQP(b []byte, f *finding) []byte {
	if f.source.From == 0 {
		return b
	}
	b = appendUint(b, `,"src_qp":`, f.source.SrcQP)
	return appendText(b, `,"src_qp_from":"`, f.source.From.String())
}
