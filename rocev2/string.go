package rocev2

import (
	"fmt"
	"net/netip"
)

// String returns addresses and ports, and the length of the data, as in
// "192.0.2.1:49152 > 192.0.2.2:4791, 64 octets".
func (d Datagram) String() string {
	return fmt.Sprintf("%v > %v, %d octets", netip.AddrPortFrom(d.Src, d.SrcPort), netip.AddrPortFrom(d.Dst, d.DstPort),
		len(d.Data))
}

// String returns addresses and ports, the headers of the transport, and the
// length of the payload.
func (p Packet) String() string {
	return fmt.Sprintf("%v > %v, %v, %d octets of payload",
		netip.AddrPortFrom(p.Src, p.SrcPort), netip.AddrPortFrom(p.Dst, p.DstPort), p.BTH, len(p.Payload))
}

// String returns addresses, ports and protocol, as in
// "192.0.2.1:49152 > 192.0.2.2:4791 protocol 17".
func (t FiveTuple) String() string {
	return fmt.Sprintf("%v > %v protocol %d", netip.AddrPortFrom(t.Src, t.SrcPort),
		netip.AddrPortFrom(t.Dst, t.DstPort), t.Protocol)
}

// String returns the five-tuple, and the ends of the tunnel where there is one.
func (f Flow) String() string {
	if !f.Tunnelled() {
		return f.FiveTuple.String()
	}
	return fmt.Sprintf("%v in a tunnel %v > %v", f.FiveTuple, f.OuterSrc(), f.OuterDst())
}
