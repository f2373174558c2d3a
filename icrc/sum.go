package icrc

import (
	"math/bits"

	"github.com/rocecn/rocecn/internal/ipv6ext"
)

// The masks of the IP header and of what stands behind it.
var (
	maskIPv4 = mask{64 + 1: 0xFF, 64 + 8: 0xFF, 64 + 10: 0xFF, 64 + 11: 0xFF}
	maskIPv6 = mask{64: 0x0F, 64 + 1: 0xFF, 64 + 2: 0xFF, 64 + 3: 0xFF, 64 + 7: 0xFF}
	maskUDP  = mask{64 + 6: 0xFF, 64 + 7: 0xFF, 64 + 12: 0xFF} // with the BTH

	maskNothing mask
)

// sum returns the ICRC of the packet that p describes, in one of the three
// coverages.
func (p packet) sum(ip []byte, c Coverage) (uint32, error) {
	if p.ext == p.udp {
		return ^plain(ip[:p.end]), nil
	}
	m := &maskIPv6
	if p.ext == ipv4Len {
		m = &maskIPv4
	}
	if c == AsSent {
		return ^extended(ip[:p.end], p.udp, m), nil
	}
	r := update(prefixed, ip[:p.ext], m)
	if c == Without {
		d, err := p.leaveOut(ip)
		if err != nil {
			return 0, err
		}
		r ^= d
	}
	return ^update(r, ip[p.udp:p.end], &maskUDP), nil
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
	h := (*[ipv6Len]byte)(ip)
	word := be.Uint32(h[4:]) // Payload Length, Next Header, Hop Limit
	diff := word ^ (word&0xFFFF00FF | udpProtocol<<8 - n<<16)
	r := t.step(t.word(bits.ReverseBytes32(diff)), 0, 0)
	switch final, short := ipv6ext.Final(h[6], ip[p.ext:p.udp]); {
	case short:
		return 0, errSegmentList
	case final == nil:
		return t.step(r, 0, 0), nil
	default:
		to := (*[16]byte)(final)
		return t.step(r, le.Uint64(h[24:])^le.Uint64(to[:]), le.Uint64(h[32:])^le.Uint64(to[8:])), nil
	}
}
