package inspect

import (
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// humanPrinter prints a finding as text: columns first, then the remaining fields. The most frequent fields are
// formatted without package fmt, as in jsonPrinter.
type humanPrinter struct {
	w     io.Writer
	all   bool // print packets of kind other too
	link  bool // print the link-layer header and the addresses of outer IP headers
	clock clock
	names opcodeNames
	columns
}

func (p *humanPrinter) print(f *finding) error {
	if f.kind == message.KindOther && !p.all {
		return nil
	}
	p.beginLine()
	if f.file != "" {
		p.addCell(cli.Printable(f.file))
	}
	p.printFrameNumber(f.frame)
	p.printTime(f)
	flow, other := "-", ""
	switch f.kind {
	case message.KindOther, message.KindError:
		flow, other = otherName(f)
	case message.KindPFC, message.KindPause:
		if src, dst, ok := f.walked.MACs(); ok {
			flow = macText(src) + " > " + macText(dst)
		}
	}
	if d := f.datagram; d != nil {
		p.line = netip.AddrPortFrom(d.Src, d.SrcPort).AppendTo(p.line)
		p.line = append(p.line, " > "...)
		p.line = netip.AddrPortFrom(d.Dst, d.DstPort).AppendTo(p.line)
	} else {
		p.line = append(p.line, flow...)
	}
	p.endCell()
	switch f.kind {
	case message.KindOther:
		p.addCell(other)
		if f.needed != 0 {
			p.addText(f.err.Error())
		}
	case message.KindError:
		p.addCell("ERROR")
		if f.needed != 0 {
			p.addText(f.err.Error())
		} else {
			p.addText(errorReason(f.err))
		}
	case message.KindFCN:
		p.printFCN(f)
	case message.KindProxy:
		p.printProxy(f)
	case message.KindPFC:
		p.printPFC(f)
	case message.KindPause:
		p.addCell("PAUSE")
		p.addText(quantaText(f.message.Pause.Quanta))
	default:
		p.printTransport(f)
	}
	if f.truncated && f.packet == nil {
		p.addText("truncated")
	}
	for i := range f.ioam {
		p.addText(f.ioam[i].String())
	}
	if f.optionsError != nil {
		p.addFormatted("BROKEN options: %s", errorReason(f.optionsError))
	}
	if f.hasOuterHeaders() {
		p.printOuterHeaders(f.walked)
	}
	if p.link && f.walked != nil && f.kind != message.KindPFC && f.kind != message.KindPause {
		p.printLink(f.walked)
	}
	return p.writeLine(p.w)
}

// printFrameNumber prints the number of the frame, the shorter ones on the right.
func (p *humanPrinter) printFrameNumber(n int) {
	for width := 10_000; n < width; width /= 10 {
		p.line = append(p.line, ' ')
	}
	p.line = strconv.AppendInt(p.line, int64(n), 10)
	p.endCell()
}

func (p *humanPrinter) printTime(f *finding) {
	if t := f.record.Time; t.IsZero() {
		p.line = append(p.line, '-')
	} else {
		p.clock.aligned = true
		p.line = p.clock.append(p.line, t, "15:04:05")
	}
	p.endCell()
}

// printTransport prints the packet from its BTH on.
func (p *humanPrinter) printTransport(f *finding) {
	h := &f.packet.BTH
	switch f.kind { // the opcode does not tell the notifications apart
	case message.KindFastCNP:
		p.addCell("Fast CNP")
	case message.KindUnknownOption:
		p.addCell("unknown option")
	case message.KindPPFC:
		p.addCell("PPFC " + f.message.PPFC.Type.String())
	default:
		p.addCell(p.names.name(h.Opcode))
	}
	p.line = appendHex(p.line, "qp=0x", uint64(h.DestQP), 6)
	p.printSourceQP(f)
	p.line = appendUint(p.line, " psn=", h.PSN)
	p.endCell()
	p.line = appendUint(p.line, "payload=", uint(f.packet.PayloadLen()))
	p.endCell()
	switch {
	case f.trimmed:
		p.addCell("trimmed")
	case f.truncated:
		p.addCell("truncated")
	case !f.icrcOK:
		p.addCell("icrc BAD")
	case f.coverage != icrc.AsSent:
		p.addText("icrc ok (" + coverageText(f.coverage) + ")")
	default:
		p.addCell("icrc ok")
	}
	for x := range h.Present.All() {
		p.printHeader(x, h)
	}
	if text, _, ok := formatCM(f.packet); ok {
		p.addText(text)
	}
	p.printNotification(f)
	p.printMarks(f.datagram, &h.Header)
	p.printDeviations(f)
}

// coverageText describes a coverage other than [icrc.AsSent].
func coverageText(c icrc.Coverage) string {
	if c == icrc.Without {
		return "computed without extension headers"
	}
	return "computed over everything except extension headers"
}

// printHeader prints one extended header.
func (p *humanPrinter) printHeader(x bth.HeaderSet, h *bth.Headers) {
	switch x {
	case bth.HasRDETH:
		p.addFormatted("RDETH ee=%d", h.RDETH.EEContext)
	case bth.HasDETH:
		p.addFormatted("DETH srcqp=0x%06x qkey=0x%08x", h.DETH.SrcQP, h.DETH.QKey)
	case bth.HasXRCETH:
		p.addFormatted("XRCETH srq=%d", h.XRCETH.SRQ)
	case bth.HasFETH:
		p.addFormatted("FETH selectivity=%d placement=%d", h.FETH.Selectivity, h.FETH.Placement)
	case bth.HasRETH:
		p.line = appendHex(p.line, "RETH va=0x", h.RETH.VirtualAddress, 16)
		p.line = appendHex(p.line, " rkey=0x", uint64(h.RETH.RKey), 8)
		p.line = appendUint(p.line, " len=", h.RETH.DMALength)
		p.endWord()
	case bth.HasAtomicETH:
		a := &h.AtomicETH
		p.addFormatted("AtomicETH va=0x%016x rkey=0x%08x swap/add=0x%x compare=0x%x", a.VirtualAddress, a.RKey,
			a.SwapAdd,
			a.Compare)
	case bth.HasAETH:
		p.printSyndrome(h.AETH.Syndrome)
		p.line = appendUint(p.line, " msn=", h.AETH.MSN)
		p.endWord()
	case bth.HasAtomicAckETH:
		p.addFormatted("original=0x%x", h.AtomicAckETH.Original)
	case bth.HasImmDt:
		p.line = appendHex(p.line, "imm=0x", uint64(h.ImmDt.Data), 8)
		p.endWord()
	case bth.HasIETH:
		p.addFormatted("invalidate rkey=0x%08x", h.IETH.RKey)
	}
}

func (p *humanPrinter) printSyndrome(s bth.Syndrome) {
	if s.Type() == bth.SyndromeRNRNAK {
		p.line = fmt.Appendf(p.line, "RNR NAK timer=%v", s.Timer())
	} else if n, ok := s.Credits(); ok {
		p.line = appendUint(p.line, "ACK credits=", uint(n))
	} else {
		p.line = append(p.line, s.String()...) // an ACK without credits, a NAK with its reason
	}
}

// printMarks prints congestion marks and fields with unusual values. It omits the BECN of CNPs, as all of them have it.
// h is nil for packets without a BTH.
func (p *humanPrinter) printMarks(d *rocev2.Datagram, h *bth.Header) {
	if h == nil {
		h = &bth.Header{PKey: 0xFFFF}
	}
	for _, mark := range [...]struct {
		set  bool
		text string
	}{
		{d.ECN() == rocev2.CE, "CE"},
		{h.FECN, "FECN"},
		{h.BECN && h.Opcode != bth.CNP, "BECN"},
		{h.Solicited, "solicited"},
		{h.AckReq, "ackreq"},
	} {
		if mark.set {
			p.addText(mark.text)
		}
	}
	if d.DSCP() != 0 {
		p.line = appendUint(p.line, "dscp=", d.DSCP())
		p.endWord()
	}
	if h.PKey != 0xFFFF {
		p.line = appendHex(p.line, "pkey=0x", uint64(h.PKey), 4)
		p.endWord()
	}
	if h.TVer != 0 {
		p.line = appendUint(p.line, "tver=", h.TVer)
		p.endWord()
	}
}

// errorReason is the text of an error without the package that it comes from.
func errorReason(err error) string { return withoutPackage(err.Error()) }

func withoutPackage(text string) string {
	if _, rest, ok := strings.Cut(text, ": "); ok {
		return rest
	}
	return text
}
