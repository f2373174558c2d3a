package rocev2

import (
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
)

// minPlain is the length of the shortest of the frames below, over IPv4.
const minPlain = 14 + 20 + 8 + minData

// decodePlain is Decode for the frames that most RoCEv2 packets are: Ethernet
// without tags, IPv4 without options or IPv6 without extension headers, UDP to
// port 4791, nothing cut and nothing wrong. It does the same as the walk, which
// a fuzz target holds it to, in half the time, because most offsets are
// constants: that is lost when the fields are set by the same functions as
// there. False leaves p unchanged and the frame to the walk.
func (p *Packet) decodePlain(b []byte) bool {
	const ip = 14
	if len(b) < minPlain {
		return false
	}
	var udp, end int
	switch be.Uint16(b[12:]) {
	case etherIPv6:
		udp = ip + 40
		end = udp + int(be.Uint16(b[ip+4:]))
		if b[ip]>>4 != 6 || b[ip+6] != protoUDP {
			return false
		}
	case etherIPv4:
		udp = ip + 20
		end = ip + int(be.Uint16(b[ip+2:]))
		if b[ip] != 0x45 || b[ip+9] != protoUDP || be.Uint16(b[ip+6:])&0x3FFF != 0 {
			return false
		}
	default:
		return false
	}
	if end > len(b) || end < udp+8+minData {
		return false
	}
	u := (*[8 + minData]byte)(b[udp:])
	length := int(be.Uint16(u[4:]))
	op := bth.Opcode(u[8])
	icrcAt := udp + length - icrcSize
	payload, pad := udp+8+bth.Size+op.HeaderLen(), icrcAt
	if op.Known() && op != bth.CNP {
		pad -= int(u[9] >> 4 & 3)
	}
	if be.Uint16(u[2:]) != Port || udp+length > end || payload > pad {
		return false
	}

	d := &p.Datagram
	if udp == ip+40 {
		h := (*[40]byte)(b[ip:])
		d.Src = netip.AddrFrom16([16]byte(h[8:24]))
		d.Dst = netip.AddrFrom16([16]byte(h[24:40]))
		first := be.Uint32(h[0:])
		d.TrafficClass, d.FlowLabel, d.HopLimit = uint8(first>>20), first&0xFFFFF, h[7]
		d.ID, d.Flags, d.NextHeader = 0, 0, protoUDP
	} else {
		h := (*[20]byte)(b[ip:])
		d.Src = netip.AddrFrom4([4]byte(h[12:16]))
		d.Dst = netip.AddrFrom4([4]byte(h[16:20]))
		d.TrafficClass, d.FlowLabel, d.HopLimit = h[1], 0, h[8]
		d.ID, d.Flags, d.NextHeader = be.Uint16(h[4:]), h[6]>>5, 0
	}
	d.Link, d.IP = b[:ip:ip], b[ip:end:end]
	d.SrcPort, d.DstPort, d.Length, d.Checksum = be.Uint16(u[0:]), Port, uint16(length), be.Uint16(u[6:])
	d.Data = b[udp+8 : icrcAt+icrcSize : icrcAt+icrcSize]
	d.Outer, d.Ext, d.Truncated = nil, nil, false
	p.BTH.Decode(d.Data) // cannot fail: the headers are there
	p.Payload, p.Padding = b[payload:pad:pad], nil
	if icrcAt > pad {
		p.Padding = b[pad:icrcAt:icrcAt]
	}
	p.ICRC = le.Uint32(b[icrcAt:])
	p.Coverage = icrc.AsSent
	return true
}
