package icrc

// The masks of the IP header and of what stands behind it.
var (
	maskIPv4 = mask{64 + 1: 0xFF, 64 + 8: 0xFF, 64 + 10: 0xFF, 64 + 11: 0xFF}
	maskIPv6 = mask{64: 0x0F, 64 + 1: 0xFF, 64 + 2: 0xFF, 64 + 3: 0xFF, 64 + 7: 0xFF}
	maskUDP  = mask{64 + 6: 0xFF, 64 + 7: 0xFF, 64 + 12: 0xFF} // with the BTH
	maskNone mask
)

// sum returns the ICRC of the packet that p describes.
func (p packet) sum(ip []byte, c Coverage) (uint32, error) {
	if c > Skipped {
		return 0, ErrCoverage
	}
	if p.ext == p.udp {
		return ^plain(ip[:p.end]), nil
	}
	m := &maskIPv6
	if p.ext == ipv4Len {
		m = &maskIPv4
	}
	var r uint32
	if c == AsSent {
		r = update(prefixed, ip[:p.udp], m)
	} else {
		var head [ipv6Len]byte
		copy(head[:], ip[:p.ext])
		if c == Without {
			if err := p.leaveOut(&head, ip); err != nil {
				return 0, err
			}
		}
		// Not by update: what it may hand to hash/crc32 moves to the heap.
		r, _ = slicing.update(prefixed, head[:p.ext], m)
	}
	return ^update(r, ip[p.udp:p.end], &maskUDP), nil
}

// leaveOut makes the IP header at the front of head, a copy, what it would be
// without options and extension headers.
func (p packet) leaveOut(head *[ipv6Len]byte, ip []byte) error {
	n := uint16(p.udp - p.ext)
	if p.ext == ipv4Len {
		head[0] = 4<<4 | ipv4Len/4
		be.PutUint16(head[2:], be.Uint16(head[2:])-n)
		return nil
	}
	be.PutUint16(head[4:], be.Uint16(head[4:])-n)
	next := head[6]
	head[6] = udpProtocol
	for at := p.ext; at < p.udp; next, at = ip[at], at+extensionLen(ip, at) {
		if next != routing || ip[at+2] != segmentRouting || ip[at+3] == 0 {
			continue
		}
		if extensionLen(ip, at) < 8+16 {
			return ErrSegmentList
		}
		copy(head[24:], ip[at+8:at+24])
	}
	return nil
}
