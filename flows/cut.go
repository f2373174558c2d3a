package flows

import (
	"cmp"
	"math"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// needs returns how many octets of a frame that was cut by the snap length the
// accounting would need: 0 where they are there, or where the packet is none of
// ours. Where not even the UDP header is there, it may be.
func (d *Decoder) needs(b []byte, o rocev2.DecodeOptions) uint16 {
	ip := b
	if o.Link != rocev2.LinkIP {
		ether, payload := rocev2.LinkPayload(b, o)
		if ether != 0x0800 && ether != 0x86DD {
			return 0
		}
		ip = payload
	}
	udp, total := udpOffset(ip)
	if udp == 0 {
		return 0
	}
	needed := udp + udpSize + bth.Size
	if len(ip) >= udp+4 {
		switch port := be.Uint16(ip[udp+2:]); port {
		case rocev2.Port:
			if len(ip) < needed {
				break
			}
			if op := bth.Opcode(ip[udp+udpSize]); op == bth.CNP { // a PPFC is one, too
				needed = total
			} else {
				needed += op.HeaderLen()
			}
		case cmp.Or(d.Config.FCNPort, fcn.ExperimentalPort), cmp.Or(d.Config.ProxyPort, proxymsg.ExperimentalPort):
			needed = total
		default:
			return 0
		}
	}
	if needed <= len(ip) {
		return 0
	}
	return uint16(min(len(b)-len(ip)+needed, math.MaxUint16))
}

const udpSize = 8

// udpOffset returns where the UDP header of an IP packet begins, or would begin as
// far as can be seen, 0 for a packet without one, and the length of the packet by
// its header.
func udpOffset(ip []byte) (offset, total int) {
	const udp = 17
	switch {
	case len(ip) == 0:
		return 0, 0
	case ip[0]>>4 == 4:
		if len(ip) >= 10 && (ip[9] != udp || be.Uint16(ip[6:])&0x1FFF != 0) {
			return 0, 0
		}
		if len(ip) >= 4 {
			total = int(be.Uint16(ip[2:]))
		}
		return max(int(ip[0]&15)*4, 20), total
	case ip[0]>>4 != 6:
		return 0, 0
	}
	offset = 40
	if len(ip) < 7 {
		return offset, 0
	}
	total = offset + int(be.Uint16(ip[4:]))
	for next := ip[6]; ; {
		const hopByHop, routing, fragment, destination = 0, 43, 44, 60
		if next == udp {
			return offset, total
		}
		if next != hopByHop && next != routing && next != fragment && next != destination {
			return 0, 0
		}
		if len(ip) < offset+8 {
			return offset + 8, total
		}
		header := ip[offset:]
		size := 8 * (1 + int(header[1]))
		if next == fragment {
			if size = 8; be.Uint16(header[2:])>>3 != 0 {
				return 0, 0
			}
		}
		next = header[0]
		offset += size
	}
}
