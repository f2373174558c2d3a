package wire

// PlainUDP is the first branch of every walk of package rocev2. It returns the offset of the UDP header and the end of
// the IP packet, by its length field, if the header at b[ip:] is IPv4 without options or IPv6 without extension
// headers, as the EtherType announces, not a fragment, and followed by UDP. Otherwise udp is 0. first has the EtherType
// and the first two octets of the IP header. The function is small enough to be inlined.
func PlainUDP(b []byte, ip int, first uint32) (udp, end int) {
	if len(b) >= ip+minPlain {
		switch {
		case first>>12 == plainIPv6 && b[ip+6] == ProtoUDP:
			return ip + IPv6Size, ip + IPv6Size + int(be.Uint16(b[ip+4:]))
		case first>>8 == plainIPv4 && be.Uint32(b[ip+6:])&fragmentOrProto == ProtoUDP:
			return ip + IPv4Size, ip + int(be.Uint16(b[ip+2:]))
		}
	}
	return 0, 0
}

const (
	minPlain        = IPv4Size + UDPSize
	plainIPv6       = EtherIPv6<<4 | IPv6                 // EtherType and version
	plainIPv4       = EtherIPv4<<8 | IPv4<<4 | IPv4Size/4 // EtherType, version and IHL without options
	fragmentOrProto = FragmentBits<<16 | 0xFF             // of 4 octets: flags and offset, TTL, protocol
)

// ExtendedUDP is the second branch: PlainUDP for one IPv6 extension header before UDP. That is Destination Options in
// a Fast CNP, Hop-by-Hop Options in data with an IOAM trace, or Routing.
func ExtendedUDP(b []byte, ip int, first uint32) (udp, end int) {
	const ext = IPv6Size
	if first>>12 != plainIPv6 || len(b) < ip+ext+ExtensionUnit {
		return 0, 0
	}
	h := (*[ext + ExtensionUnit]byte)(b[ip:])
	if !IsExtension(h[6]) || h[ext] != ProtoUDP {
		return 0, 0
	}
	return ip + ext + ExtensionUnit*(1+int(h[ext+1])), ip + ext + int(be.Uint16(h[4:]))
}

// ImpliedStart returns the argument first of PlainUDP and ExtendedUDP for an IP packet without a link-layer header,
// with the EtherType that its version field implies. It is 0, which both reject, if ip is shorter than both need.
func ImpliedStart(ip []byte) (first uint32) {
	switch {
	case len(ip) < minPlain:
		return 0
	case ip[0] == IPv4<<4|IPv4Size/4:
		return plainIPv4 << 8
	}
	return EtherIPv6<<16 | uint32(be.Uint16(ip))
}
