package inspect

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// printNotification prints the contents of a notification that the columns do not show.
func (p *humanPrinter) printNotification(f *finding) {
	switch f.kind {
	case message.KindFastCNP:
		n := &f.message.FastCNP
		p.addFormatted("from the %v: %v > %v is congested", n.Origin(), n.Dst, n.Option.OriginalDst)
		if n.Option.Number == 2 {
			p.addText(traceText(&n.Option.Trace))
		}
	case message.KindUnknownOption:
		p.addFormatted("option type %v is unknown: maybe a Fast CNP, and qp of another host", unknownOption(f.packet))
	case message.KindPPFC:
		n := &f.message.PPFC
		p.addFormatted("address=%v port=%d pause=%v", n.Congested, n.Port, n.Pause)
	}
}

// unknownOption returns the type of the first destination option that must not
// be skipped, 0 where there is none.
func unknownOption(p *rocev2.Packet) ipv6opt.Type {
	for next, octets := range p.Extensions() {
		var h ipv6opt.Header
		if next != ipv6opt.DestinationOptions {
			continue
		}
		if _, err := h.Decode(octets); err != nil {
			return 0
		}
		for o, err := range h.All() {
			if err == nil && o.Type.Action() != ipv6opt.ActionSkip {
				return o.Type
			}
		}
	}
	return 0
}

func (p *humanPrinter) printFCN(f *finding) {
	m := &f.message.FCN
	p.addCell("FCN")
	p.addCell(fmt.Sprintf("label=0x%05x level=%d", m.FlowLabel, m.Level))
	p.printMarks(f.datagram, nil)
	p.printDeviations(f)
}

func (p *humanPrinter) printProxy(f *finding) {
	m := &f.message.Proxy
	p.addCell("Proxy message")
	if h, err := m.BTH(); err == nil {
		p.addCell(fmt.Sprintf("qp=0x%06x level=%d", h.DestQP, m.Level))
	} else {
		p.addCell(fmt.Sprintf("level=%d", m.Level))
	}
	p.addFormatted("%s is congested", flowText(m))
	p.addFormatted("invoking=%d", invokingLen(m, f.datagram))
	p.printMarks(f.datagram, nil)
	p.printDeviations(f)
}

func (p *humanPrinter) printPFC(f *finding) {
	m := &f.message.PFC
	p.addCell("PFC")
	var all []string
	for priority, quanta := range m.All() {
		all = append(all, fmt.Sprintf("priority %d %s", priority, quantaText(quanta)))
	}
	if all == nil {
		all = []string{"no priority"}
	}
	p.addText(strings.Join(all, ", "))
	p.printDeviations(f)
}

// quantaText formats a pause time.
func quantaText(quanta uint16) string {
	if quanta == 0 {
		return "resume"
	}
	return fmt.Sprintf("pause=%d quanta", quanta)
}

func flowText(m *proxymsg.Message) string {
	protocol := protocolName(m.Protocol)
	if m.SrcPort == 0 && m.DstPort == 0 {
		return fmt.Sprintf("%s %v > %v", protocol, m.Src, m.Dst)
	}
	return fmt.Sprintf("%s %v > %v", protocol, netip.AddrPortFrom(m.Src, m.SrcPort),
		netip.AddrPortFrom(m.Dst, m.DstPort))
}

// printDeviations prints deviations from the specification of a message.
func (p *humanPrinter) printDeviations(f *finding) {
	var err error
	switch m := f.message; f.kind {
	case message.KindCNP:
		err = m.CNP.Validate()
	case message.KindFastCNP:
		err = m.FastCNP.Validate()
	case message.KindPPFC:
		err = m.PPFC.Validate()
	case message.KindFCN:
		err = m.FCN.Validate()
	case message.KindProxy:
		err = m.Proxy.Validate()
	case message.KindPFC:
		err = m.PFC.Validate()
	}
	if err == nil {
		return
	}
	all := strings.Split(err.Error(), "\n")
	for i, deviation := range all {
		all[i] = withoutPackage(deviation)
	}
	p.addFormatted("deviates: %s", strings.Join(all, ", "))
}
