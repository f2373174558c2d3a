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

// String returns the five-tuple of the innermost packet, and if there is a tunnel, its outermost addresses.
func (f *Frame) String() string {
	flow, err := f.FiveTuple()
	switch {
	case err != nil:
		return "no flow: " + err.Error()
	case f.Tunnelled():
		return fmt.Sprintf("%v in a tunnel %v > %v", flow, f.Outer().Src(), f.Outer().Dst())
	}
	return flow.String()
}
