package icrc

import (
	"math/bits"

	"github.com/rocecn/rocecn/internal/crc"
	"github.com/rocecn/rocecn/internal/wire"
)

// sum returns the ICRC of the packet that p describes, in one of the three
// coverages.
func (p packet) sum(ip []byte, c Coverage) (uint32, error) {
	if p.ext == p.udp {
		return ^crc.Plain(ip[:p.end]), nil
	}
	if c == AsSent {
		return ^crc.Extended(ip[:p.end], p.udp), nil
	}
	r := crc.IP(ip[:p.ext])
	if c == Without {
		d, err := p.leaveOut(ip)
		if err != nil {
			return 0, err
		}
		r ^= d
	}
	return ^crc.UDP(r, ip[p.udp:p.end]), nil
}

// leaveOut returns a correction of the register for coverage Without. XOR with it turns the register after the fixed IP
// header into the register after the header that the packet would have without options and extension headers. The
// register is linear, so the correction is the register after the XOR of the two headers.
func (p packet) leaveOut(ip []byte) (uint32, error) {
	n := uint32(p.udp - p.ext)
	if p.ext == wire.IPv4Size {
		word := be.Uint32(ip) // Version, IHL, TOS, Total Length
		diff := word ^ (word&0xF0FFFFFF | wire.IPv4Size/4<<24 - n)
		return crc.Step(crc.Word(bits.ReverseBytes32(diff)), 0, 0), nil
	}
	h := (*[wire.IPv6Size]byte)(ip)
	word := be.Uint32(h[4:]) // Payload Length, Next Header, Hop Limit
	diff := word ^ (word&0xFFFF00FF | wire.ProtoUDP<<8 - n<<16)
	r := crc.Step(crc.Word(bits.ReverseBytes32(diff)), 0, 0)
	switch final, short := wire.FinalSegment(h[6], ip[p.ext:p.udp]); {
	case short:
		return 0, errSegmentList
	case final == nil:
		return crc.Step(r, 0, 0), nil
	default:
		to := (*[16]byte)(final)
		return crc.Step(r, le.Uint64(h[24:])^le.Uint64(to[:]), le.Uint64(h[32:])^le.Uint64(to[8:])), nil
	}
}
