package icrc

import (
	"encoding/binary"

	"github.com/rocecn/rocecn/internal/wire"
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

const udpProtocol = 17

// Lengths in octets.
const (
	ipv4Len  = 20
	ipv6Len  = 40
	udpLen   = 8
	bthLen   = 12
	icrcLen  = 4
	fixedLen = udpLen + bthLen // what every packet has behind the IP header
	minUDP   = fixedLen + icrcLen
)

// packet is where things stand in one IP packet: offsets into its octets.
type packet struct {
	ext int // end of the fixed IP header: options, extension headers
	udp int // the UDP header; ext where there are none
	end int // the ICRC
}

// find checks ip down to the UDP length and says where things stand.
func find(ip []byte) (p packet, err error) {
	if len(ip) < ipv4Len {
		return p, errHeader
	}
	var limit int // the end of the IP packet, by its own length field
	switch ip[0] >> 4 {
	case 4:
		p.ext, p.udp = ipv4Len, int(ip[0]&0x0F)*4
		limit = int(be.Uint16(ip[2:]))
		switch {
		case p.udp < ipv4Len:
			return p, errIHL
		case be.Uint16(ip[6:])&0x3FFF != 0: // More Fragments, or an offset
			return p, errFragment
		case ip[9] != udpProtocol:
			return p, errNotUDP
		case len(ip) < p.udp:
			return p, errHeader
		}
	case 6:
		if len(ip) < ipv6Len {
			return p, errHeader
		}
		limit = ipv6Len + int(be.Uint16(ip[4:]))
		p.ext, p.udp = ipv6Len, ipv6Len
		next, whole := ip[6], true
		if next != udpProtocol {
			next, p.udp, _, whole = wire.SkipExtensions(ip[:min(limit, len(ip))], ipv6Len, next)
		}
		switch {
		case next == udpProtocol:
		case !whole:
			return p, errExtension
		case next == wire.ProtoFragment:
			return p, errFragment
		default:
			return p, errNotUDP
		}
	default:
		return p, errVersion
	}
	if p.udp+udpLen > min(limit, len(ip)) {
		return p, errUDPHeader
	}
	length := int(be.Uint16(ip[p.udp+4 : p.udp+6]))
	end := p.udp + length
	p.end = end - icrcLen
	switch {
	case length < minUDP:
		return p, errRoom
	case limit > len(ip):
		return p, errIPLength
	case end <= limit:
		return p, nil
	case end > len(ip):
		return p, errUDPCut
	}
	return p, errUDPBeyondIP
}
