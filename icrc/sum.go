package icrc

import "math/bits"

// The masks of the IP header and of what stands behind it.
var (
	maskIPv4 = mask{64 + 1: 0xFF, 64 + 8: 0xFF, 64 + 10: 0xFF, 64 + 11: 0xFF}
	maskIPv6 = mask{64: 0x0F, 64 + 1: 0xFF, 64 + 2: 0xFF, 64 + 3: 0xFF, 64 + 7: 0xFF}
	maskUDP  = mask{64 + 6: 0xFF, 64 + 7: 0xFF, 64 + 12: 0xFF} // with the BTH

	maskNothing mask
)

// sum returns the ICRC of the packet that p describes.
func (p packet) sum(ip []byte, c Coverage) (uint32, error) {
	if c > Skipped {
		return 0, errCoverage
	}
	if p.ext == p.udp {
		return ^plain(ip[:p.end]), nil
	}
	m := &maskIPv6
	if p.ext == ipv4Len {
		m = &maskIPv4
	}
	end := p.udp
	if c != AsSent {
		end = p.ext
	}
	r := update(prefixed, ip[:end], m)
	if c == Without {
		d, err := p.leaveOut(ip)
		if err != nil {
			return 0, err
		}
		r ^= d
	}
	return ^update(r, ip[p.udp:p.end], &maskUDP), nil
}

// put puts the ICRC into the packet that p describes.
func (p packet) put(ip []byte, c Coverage) (err error) {
	var sum uint32
	if c == AsSent && p.ext == ipv6Len && p.udp > p.ext {
		sum = p.sumInPlace(ip)
	} else if sum, err = p.sum(ip, c); err != nil {
		return err
	}
	le.PutUint32(ip[p.end:], sum)
	return nil
}

// sumInPlace is sum in coverage AsSent for an IPv6 packet with extension
// headers. It puts ones into the packet where the masks have them, and so is
// done in one pass, not two; then it puts back what was there.
func (p packet) sumInPlace(ip []byte) uint32 {
	h, udp := (*[ipv6Len]byte)(ip), (*[fixedLen]byte)(ip[p.udp:])
	label, hopLimit, checksum, resv8a := be.Uint32(h[0:]), h[7], be.Uint16(udp[6:]), udp[12]

	be.PutUint32(h[0:], label|0x0FFFFFFF)
	h[7], udp[12] = 0xFF, 0xFF
	be.PutUint16(udp[6:], 0xFFFF)
	r := update(prefixed, ip[:p.end], &maskNothing)

	be.PutUint32(h[0:], label)
	h[7], udp[12] = hopLimit, resv8a
	be.PutUint16(udp[6:], checksum)
	return ^r
}

// leaveOut returns what the register after the IP header is to be XORed with
// for a header as it would be without options and extension headers: the
// register is linear, so that is what the XOR of the two headers leaves in it.
func (p packet) leaveOut(ip []byte) (uint32, error) {
	t, n := slicing, uint32(p.udp-p.ext)
	if p.ext == ipv4Len {
		word := be.Uint32(ip) // Version, IHL, TOS, Total Length
		diff := word ^ (word&0xF0FFFFFF | ipv4Len/4<<24 - n)
		return t.step(t.word(bits.ReverseBytes32(diff)), 0, 0), nil
	}
	word := be.Uint32(ip[4:]) // Payload Length, Next Header, Hop Limit
	diff := word ^ (word&0xFFFF00FF | udpProtocol<<8 - n<<16)
	next, destination := ip[6], ip[24:40]
	for at := p.ext; at < p.udp; next, at = ip[at], at+extensionLen(ip, at) {
		if next != routing || ip[at+2] != segmentRouting || ip[at+3] == 0 {
			continue
		}
		if extensionLen(ip, at) < 8+16 {
			return 0, errSegmentList
		}
		destination = ip[at+8 : at+24]
	}
	r := t.step(t.word(bits.ReverseBytes32(diff)), 0, 0)
	return t.step(r, le.Uint64(ip[24:])^le.Uint64(destination), le.Uint64(ip[32:])^le.Uint64(destination[8:])), nil
}
