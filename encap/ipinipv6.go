package encap

import "net/netip"

// IPInIPv6 is IP in IPv6 (RFC 2473):
//
//	IPv6: flow label, Next Header 4 or 41 | the packet
type IPInIPv6 struct {
	Src netip.Addr // this node
	Dst netip.Addr // the node where the tunnel ends
}

// Append implements [Tunnel]. A reduced list of one segment needs no Segment Routing
// header, and leaves IP in IPv6 (RFC 8986 section 5.2).
func (t *IPInIPv6) Append(b, inner []byte, label uint32) ([]byte, error) {
	one := SRv6{Src: t.Src, Segments: []netip.Addr{t.Dst}, Reduced: true}
	return one.Append(b, inner, label)
}

// Overhead is how many octets Append puts around a packet.
func (t *IPInIPv6) Overhead() int { return ipv6Size }
