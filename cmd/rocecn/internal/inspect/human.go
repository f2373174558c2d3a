package inspect

import (
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// humanPrinter prints a finding as a line for people: columns first, then
// whatever else the packet has to say.
type humanPrinter struct {
	w io.Writer
	columns
}

func newHumanPrinter(w io.Writer) *humanPrinter { return &humanPrinter{w: w} }

func (p *humanPrinter) print(f *finding) error {
	p.begin()
	if f.file != "" {
		p.cell("%s", f.file)
	}
	p.cell("%5d", f.frame)
	p.time(f)
	flow, protocol := "-", ""
	if f.kind == message.Other || f.kind == message.Broken {
		flow, protocol = otherName(f.ip, f.err)
	}
	if d := f.datagram; d != nil {
		flow = fmt.Sprintf("%v > %v", netip.AddrPortFrom(d.Src, d.SrcPort), netip.AddrPortFrom(d.Dst, d.DstPort))
	}
	p.cell("%s", flow)
	switch f.kind {
	case message.Other:
		p.cell("other: %s", protocol)
	case message.Broken:
		p.cell("ERROR")
		p.word("%s", reason(f.err))
	case message.FCN:
		p.fcn(f)
	case message.Proxy:
		p.proxy(f)
	default:
		p.transport(f)
	}
	if f.truncated && f.packet == nil {
		p.word("truncated")
	}
	for i := range f.ioam {
		p.word("%v", &f.ioam[i])
	}
	return p.end(p.w)
}

func (p *humanPrinter) time(f *finding) {
	switch {
	case f.record.Time.IsZero():
		p.cell("-")
	case f.record.Time.Nanosecond()%1000 == 0:
		p.cell("%s", f.record.Time.Format("15:04:05.000000"))
	default:
		p.cell("%s", f.record.Time.Format("15:04:05.000000000"))
	}
}

// transport prints the packet from its BTH on.
func (p *humanPrinter) transport(f *finding) {
	h := &f.packet.BTH
	p.cell("%s", transportName(f))
	p.cell("qp=0x%06x psn=%d", h.DestQP, h.PSN)
	p.cell("payload=%d", f.packet.PayloadLen())
	switch {
	case f.truncated:
		p.cell("truncated")
	case !f.icrcOK:
		p.cell("icrc BAD")
	case f.coverage != icrc.AsSent:
		p.cell("icrc ok (%v)", f.coverage)
	default:
		p.cell("icrc ok")
	}
	for x := range h.Present.All() {
		p.header(x, h)
	}
	p.notification(f)
	p.marks(f.datagram, &h.Header)
	p.deviations(f)
}

// transportName says what the packet is; the opcode does not tell the
// notifications apart.
func transportName(f *finding) string {
	switch f.kind {
	case message.FastCNP:
		return "Fast CNP"
	case message.PPFC:
		return "PPFC " + f.message.PPFC.Type.String()
	}
	return f.packet.BTH.Opcode.String()
}

// header prints one extended header.
func (p *humanPrinter) header(x bth.HeaderSet, h *bth.Headers) {
	switch x {
	case bth.HasRDETH:
		p.word("RDETH ee=%d", h.RDETH.EEContext)
	case bth.HasDETH:
		p.word("DETH srcqp=0x%06x qkey=0x%08x", h.DETH.SrcQP, h.DETH.QKey)
	case bth.HasXRCETH:
		p.word("XRCETH srq=%d", h.XRCETH.SRQ)
	case bth.HasFETH:
		p.word("FETH selectivity=%d placement=%d", h.FETH.Selectivity, h.FETH.Placement)
	case bth.HasRETH:
		p.word("RETH va=0x%016x rkey=0x%08x len=%d", h.RETH.VirtualAddress, h.RETH.RKey, h.RETH.DMALength)
	case bth.HasAtomicETH:
		a := &h.AtomicETH
		p.word("AtomicETH va=0x%016x rkey=0x%08x swap/add=0x%x compare=0x%x", a.VirtualAddress, a.RKey, a.SwapAdd, a.Compare)
	case bth.HasAETH:
		p.word("%s msn=%d", syndrome(h.AETH.Syndrome), h.AETH.MSN)
	case bth.HasAtomicAckETH:
		p.word("original=0x%x", h.AtomicAckETH.Original)
	case bth.HasImmDt:
		p.word("imm=0x%08x", h.ImmDt.Data)
	case bth.HasIETH:
		p.word("invalidate rkey=0x%08x", h.IETH.RKey)
	}
}

func syndrome(s bth.Syndrome) string {
	if s.Kind() == bth.KindRNRNAK {
		return fmt.Sprintf("RNR NAK timer=%v", s.Timer())
	}
	if n, ok := s.Credits(); ok {
		return fmt.Sprintf("ACK credits=%d", n)
	}
	return s.String() // an ACK without credits, a NAK with its reason
}

// marks prints what stands out: congestion, and fields that are not what they
// mostly are. BECN is what every CNP has. Without a BTH h is nil.
func (p *humanPrinter) marks(d *rocev2.Datagram, h *bth.Header) {
	if h == nil {
		h = &bth.Header{PKey: 0xFFFF}
	}
	for _, mark := range []struct {
		set  bool
		text string
	}{
		{d.ECN() == 3, "CE"},
		{h.FECN, "FECN"},
		{h.BECN && h.Opcode != bth.CNP, "BECN"},
		{h.Solicited, "solicited"},
		{h.AckReq, "ackreq"},
	} {
		if mark.set {
			p.word("%s", mark.text)
		}
	}
	if d.DSCP() != 0 {
		p.word("dscp=%d", d.DSCP())
	}
	if h.PKey != 0xFFFF {
		p.word("pkey=0x%04x", h.PKey)
	}
	if h.TVer != 0 {
		p.word("tver=%d", h.TVer)
	}
}

// reason is the text of an error without the package that it comes from.
func reason(err error) string { return withoutPackage(err.Error()) }

func withoutPackage(text string) string {
	if _, rest, ok := strings.Cut(text, ": "); ok {
		return rest
	}
	return text
}

// columns lays out lines whose columns are as wide as the widest cell so far,
// within reason.
type columns struct {
	line  []byte
	width [maxColumns]int
	next  int // column
}

const (
	maxColumns = 8
	maxWidth   = 90
)

func (c *columns) begin() { c.line, c.next = c.line[:0], 0 }

// cell prints a column.
func (c *columns) cell(format string, args ...any) {
	start := len(c.line)
	c.line = fmt.Appendf(c.line, format, args...)
	width := &c.width[c.next]
	c.next++
	n := len(c.line) - start
	*width = min(max(*width, n), maxWidth)
	for ; n < *width; n++ {
		c.line = append(c.line, ' ')
	}
	c.line = append(c.line, "  "...)
}

// word prints something behind the columns.
func (c *columns) word(format string, args ...any) {
	c.line = append(fmt.Appendf(c.line, format, args...), "  "...)
}

// end writes the line, without the space behind it.
func (c *columns) end(w io.Writer) error {
	for len(c.line) > 0 && c.line[len(c.line)-1] == ' ' {
		c.line = c.line[:len(c.line)-1]
	}
	c.line = append(c.line, '\n')
	_, err := w.Write(c.line)
	return err
}
