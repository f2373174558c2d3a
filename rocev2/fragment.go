package rocev2

import "math"

// FirstFragmentPort returns the UDP destination port that the first fragment of
// a datagram shows, where [ErrFragment] says that b is a fragment. The fragments
// behind it show none: ok is false for them, and for fragments of something
// else.
//
// The Fragment header of IPv6 (RFC 8200 section 4.5), of which the first
// fragment has offset 0:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Next Header  |   Reserved    |      Fragment Offset    |Res|M|
//	|                         Identification                        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func FirstFragmentPort(b []byte, o DecodeOptions) (port uint16, ok bool) {
	at, version, _, err := linkEnd(b, o.Link)
	for depth := 0; err == nil && depth <= maxDepth; depth++ {
		var p place
		var next uint8
		next, err = p.header(b, at, math.MaxInt, version)
		switch {
		case err == ErrFragment: // IPv4, and the header is whole
			ip := b[at:]
			first := be.Uint16(ip[6:])&0x1FFF == 0
			return udpPort(b, at+int(ip[0]&0x0F)*4, ip[9], first)
		case err == nil && next == protoFragment && len(b)-p.udp >= 12: // the header, and ports
			at = p.udp
			first := be.Uint16(b[at+2:])>>3 == 0
			next, at = b[at], at+8
			for isExtension(next) {
				n := extensionLen(b, at)
				if n == 0 {
					return 0, false
				}
				next, at = b[at], at+n
			}
			return udpPort(b, at, next, first)
		case next == protoIPv4:
			version = 4
		case next == protoIPv6:
			version = 6
		default:
			return 0, false
		}
		at = p.udp
	}
	return 0, false
}

// udpPort returns the destination port of the UDP header at b[at:], if there is
// one.
func udpPort(b []byte, at int, protocol uint8, first bool) (port uint16, ok bool) {
	if !first || protocol != protoUDP || len(b)-at < 4 {
		return 0, false
	}
	return be.Uint16(b[at+2:]), true
}
