package inspect

import (
	"net"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// hasOuterHeaders reports whether the packet of the finding is in tunnels.
func (f *finding) hasOuterHeaders() bool {
	inIP := f.datagram != nil && f.datagram.Outer != nil // tunnels does not have IP in IP
	return f.kind != message.KindOther && (inIP || f.tunnels.Len() > 0)
}

func macText(mac [6]byte) string { return net.HardwareAddr(mac[:]).String() }

// printOuterHeaders prints the tunnels around a packet: with ECN and DSCP of the IP header of each where they are not
// 0, and on demand with its addresses.
func (p *humanPrinter) printOuterHeaders(f *rocev2.Frame) {
	p.line = append(p.line, "in"...)
	for tunnel, ip := range f.OuterHeaders() {
		p.line = append(append(p.line, ' '), tunnel.String()...)
		if len(ip) == 0 {
			continue
		}
		class := wire.TrafficClass(ip)
		if p.link {
			src, dst := wire.Addresses(ip)
			p.line = dst.AppendTo(append(src.AppendTo(append(p.line, " from "...)), " to "...))
		}
		if ecn := rocev2.ECN(class & 3); ecn == rocev2.CE {
			p.line = append(p.line, " CE"...)
		} else if p.link {
			p.line = append(append(p.line, ' '), ecn.String()...)
		}
		if class>>2 != 0 {
			p.line = appendUint(p.line, " dscp=", class>>2)
		}
	}
	p.endWord()
}

// printLink prints the addresses and the VLAN tag of the frame.
func (p *humanPrinter) printLink(f *rocev2.Frame) {
	if src, dst, ok := f.MACs(); ok {
		p.addText(macText(src) + " > " + macText(dst))
	}
	if id, priority, ok := f.VLAN(); ok {
		p.addFormatted("vlan=%d pcp=%d", id, priority)
	}
}
