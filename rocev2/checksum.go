package rocev2

// putUDPChecksum puts the checksum (RFC 768, RFC 8200 section 8.1) into the
// UDP header at ip[udp:] of an IP packet without anything behind its data.
// The destination address of the pseudo-header is the final one: with a type 4
// Routing header whose Segments Left is not 0, Segment List[0].
func putUDPChecksum(ip []byte, udp int) {
	datagram := ip[udp:]
	be.PutUint16(datagram[6:], 0)
	var s uint64
	if ip[0]>>4 == 6 {
		s = sum(0, ip[8:24])
		s = sum(s, finalDestination(ip, udp))
	} else {
		s = sum(0, ip[12:20])
	}
	s += uint64(len(datagram)) + protoUDP
	c := ^fold(sum(s, datagram))
	if c == 0 { // 0 on the wire stands for no checksum
		c = 0xFFFF
	}
	be.PutUint16(datagram[6:], c)
}

// finalDestination returns the address that the IPv6 packet is bound for in
// the end. Of several Routing headers the last one tells: each node that
// inserts one puts it in front.
func finalDestination(ip []byte, udp int) []byte {
	final := ip[24:40]
	next, at := ip[6], 40
	for at < udp {
		n := extensionLen(ip, at)
		h := ip[at : at+n]
		if next == protoRouting && isSegmentList(h) {
			final = h[8:24]
		}
		next, at = h[0], at+n
	}
	return final
}

// isSegmentList says whether a Routing header holds the destination: of type 4
// (RFC 8754), with Segments Left above 0 and a Segment List[0].
func isSegmentList(h []byte) bool { return len(h) >= 24 && h[2] == 4 && h[3] > 0 }

// sum adds the 16-bit words of b to s (RFC 1071); a last odd octet counts as
// the high half of a word. It adds 32 bits at a time, which is the same modulo
// 65535; s has room for the carries of 2^32 such words.
func sum(s uint64, b []byte) uint64 {
	for ; len(b) >= 8; b = b[8:] {
		s += uint64(be.Uint32(b)) + uint64(be.Uint32(b[4:]))
	}
	if len(b) >= 4 {
		s += uint64(be.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		s += uint64(be.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		s += uint64(b[0]) << 8
	}
	return s
}

// fold brings a sum to 16 bits.
func fold(s uint64) uint16 {
	s = s>>32 + s&0xFFFFFFFF
	s = s>>32 + s&0xFFFFFFFF
	s = s>>16 + s&0xFFFF
	s = s>>16 + s&0xFFFF
	s = s>>16 + s&0xFFFF
	return uint16(s)
}
