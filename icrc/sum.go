package icrc

// sum returns the ICRC of the packet that p describes.
func (p packet) sum(ip []byte, c Coverage) (uint32, error) {
	var head [ipv6Len]byte
	copy(head[:], ip[:p.ext])
	switch c {
	case AsSent, Skipped:
	case Without:
		if err := p.leaveOut(&head, ip); err != nil {
			return 0, err
		}
	default:
		return 0, ErrCoverage
	}
	if p.ext == ipv4Len {
		head[1], head[8], head[10], head[11] = 0xFF, 0xFF, 0xFF, 0xFF
	} else {
		head[0] |= 0x0F
		head[1], head[2], head[3], head[7] = 0xFF, 0xFF, 0xFF, 0xFF
	}
	r := update(prefixed, head[:p.ext])
	if c == AsSent {
		r = updateLong(r, ip[p.ext:p.udp])
	}
	fixed := [fixedLen]byte(ip[p.udp:])
	fixed[6], fixed[7], fixed[12] = 0xFF, 0xFF, 0xFF
	r = update(r, fixed[:])
	return ^updateLong(r, ip[p.udp+fixedLen:p.end]), nil
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
