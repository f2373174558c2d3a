package rocev2

import (
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wire"
)

// plain returns the offsets of the UDP header and of the end of the IP packet, by its length field, in a plain
// frame: Ethernet without tags, IPv4 without options or IPv6 without extension headers, not a fragment, UDP. It
// returns 0 for other frames. For a complete packet with room for a UDP header the walk returns the same, but
// takes several times as long. The function is small enough to be inlined.
func plain(b []byte) (udp, end int) {
	const ip = ethernetSize
	if len(b) >= ip+20+8 {
		switch first := be.Uint32(b[12:]); { // the EtherType and the first two octets of IP
		case first>>12 == etherIPv6<<4|6 && b[ip+6] == protoUDP:
			return ip + 40, ip + 40 + int(be.Uint16(b[ip+4:]))
		case first>>8 == etherIPv4<<8|0x45 && be.Uint32(b[ip+6:])&0x3FFF00FF == protoUDP:
			return ip + 20, ip + int(be.Uint16(b[ip+2:]))
		}
	}
	return 0, 0
}

// plainIP is plain for an IP packet without a link-layer header.
func plainIP(b []byte) (udp, end int) {
	if len(b) >= 20+8 {
		switch {
		case b[0]>>4 == 6 && b[6] == protoUDP:
			return 40, 40 + int(be.Uint16(b[4:]))
		case b[0] == 0x45 && be.Uint32(b[6:])&0x3FFF00FF == protoUDP:
			return 20, int(be.Uint16(b[2:]))
		}
	}
	return 0, 0
}

// plainExtended is plain for a packet at b[ip:] with one extension header in front of UDP: Destination Options, as a
// Fast CNP has, Hop-by-Hop Options, as data with an IOAM trace has, or Routing.
func plainExtended(b []byte, ip int) (udp, end int) {
	if len(b) < ip+48 || b[ip]>>4 != 6 || !wire.IsExtension(b[ip+6]) || b[ip+40] != protoUDP ||
		ip != 0 && be.Uint16(b[12:]) != etherIPv6 {
		return 0, 0
	}
	return ip + 48 + 8*int(b[ip+41]), ip + 40 + int(be.Uint16(b[ip+4:]))
}

// plainIn is plain for this link-layer header, with or without one extension header in front of UDP. It returns 0 for
// frames that are not complete or have no room for a UDP header, too.
func plainIn(b []byte, link LinkType) (ip, udp, end int) {
	switch link {
	case LinkEthernet:
		ip = ethernetSize
		udp, end = plain(b)
	case LinkIP:
		udp, end = plainIP(b)
	default:
		return 0, 0, 0
	}
	if udp == 0 {
		udp, end = plainExtended(b, ip)
	}
	if end > len(b) || end < udp+8 {
		return 0, 0, 0
	}
	return ip, udp, end
}

// decodePlainIn is decodePlain for the offsets of plainIn.
func (p *Packet) decodePlainIn(b []byte, ip, udp, end int) (ok bool, err error) {
	if ip == 0 {
		return decodePlain[[0]byte](p, b, uint16(udp), end)
	}
	return decodePlain[[ethernetSize]byte](p, b, uint16(udp), end)
}

// A linkHeader is a link-layer header without tags; decodePlain is compiled for each, so that offsets are constants.
type linkHeader interface{ [0]byte | [ethernetSize]byte }

// decodePlain is Decode for a plain frame with these offsets. It does what the walk does in half the time, because
// most offsets are constants and few of the others need a check, as UDP begins at one of 16 bits; setting the fields by
// the functions of the walk would lose that. If ok is false, p is unchanged and the frame needs the walk.
func decodePlain[L linkHeader](p *Packet, b []byte, at uint16, end int) (ok bool, err error) {
	var link L
	ip, udp := len(link), int(at)
	if end > len(b) || end < udp+8+minData {
		return end <= len(b) && end >= udp+8 && be.Uint16(b[udp+2:]) != Port, ErrPort
	}
	b = b[:end:end]
	u := (*[8 + minData]byte)(b[udp:])
	length := int(be.Uint16(u[4:]))
	op := bth.Opcode(u[8])
	icrcAt := udp + length - icrcSize
	payload, pad := udp+8+bth.Size+op.HeaderLen(), icrcAt
	if op.Known() && op != bth.CNP {
		pad -= int(u[9] >> 4 & 3)
	}
	if be.Uint16(u[2:]) != Port || udp+length > end || payload > pad {
		return be.Uint16(u[2:]) != Port, ErrPort
	}

	d := &p.Datagram
	d.SrcPort, d.DstPort, d.Length, d.Checksum = be.Uint16(u[0:]), Port, uint16(length), be.Uint16(u[6:])
	var ext []byte
	if udp == ip+20 {
		h := (*[20]byte)(b[ip:])
		d.Src = netip.AddrFrom4([4]byte(h[12:16]))
		d.Dst = netip.AddrFrom4([4]byte(h[16:20]))
		d.TrafficClass, d.FlowLabel, d.HopLimit = h[1], 0, h[8]
		d.ID, d.Flags, d.NextHeader = be.Uint16(h[4:]), h[6]>>5, 0
	} else {
		h := (*[40]byte)(b[ip:])
		d.Src = netip.AddrFrom16([16]byte(h[8:24]))
		d.Dst = netip.AddrFrom16([16]byte(h[24:40]))
		first := be.Uint32(h[0:])
		d.TrafficClass, d.FlowLabel, d.HopLimit = uint8(first>>20), first&0xFFFFF, h[7]
		d.ID, d.Flags, d.NextHeader = 0, 0, h[6]
		if udp > ip+40 {
			ext = b[ip+40 : udp : udp]
		}
	}
	d.Link, d.Outer, d.IP, d.Ext = b[:ip:ip], nil, b[ip:], ext
	d.Data = b[udp+8 : icrcAt+icrcSize : icrcAt+icrcSize]
	d.Truncated = false
	rest, _ := p.BTH.Decode(d.Data) // cannot fail: the headers are there
	p.Payload, p.Padding = rest[:pad-payload:pad-payload], nil
	if icrcAt > pad {
		p.Padding = b[pad:icrcAt:icrcAt]
	}
	p.ICRC = le.Uint32(rest[len(rest)-icrcSize:])
	p.Coverage = icrc.AsSent
	return true, nil
}
