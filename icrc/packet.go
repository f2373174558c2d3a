package icrc

import (
	"encoding/binary"

	"github.com/rocecn/rocecn/internal/wire"
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

// minUDP is the smallest UDP length of a packet with an ICRC, in octets.
const minUDP = wire.UDPSize + wire.BTHSize + wire.ICRCSize

// A packet locates the parts of an IP packet by offsets into its octets.
type packet struct {
	ext int // end of the fixed IP header, where options or extension headers begin
	udp int // UDP header; equal to ext without options and extension headers
	end int // ICRC
}

// find checks ip down to the UDP length and locates its parts.
func find(ip []byte) (p packet, err error) {
	first := wire.ImpliedStart(ip)
	udp, limit := wire.PlainUDP(ip, 0, first)
	if udp == 0 {
		udp, limit = wire.ExtendedUDP(ip, 0, first)
	}
	if udp == 0 || udp > min(limit, len(ip)) {
		if udp, limit, err = findUDP(ip); err != nil {
			return p, err
		}
	}
	if udp+wire.UDPSize > min(limit, len(ip)) {
		return p, errUDPHeader
	}
	p.ext, p.udp = wire.FixedSize(ip), udp
	length := int(wire.UDPLength(ip[p.udp:]))
	end := p.udp + length
	p.end = end - wire.ICRCSize
	switch {
	case length < minUDP:
		return p, errRoom
	case limit > len(ip):
		return p, errIPLength
	case end <= limit:
		return p, nil
	case end > len(ip):
		return p, errUDPTruncated
	}
	return p, errUDPBeyondIP
}

// findUDP returns the offset of the UDP header and the end of the IP packet by its length field.
func findUDP(ip []byte) (udp, limit int, err error) {
	if len(ip) < wire.IPv4Size {
		return 0, 0, errHeader
	}
	h, fault := wire.ReadIP(ip, 0, wire.VersionField(ip))
	switch {
	case fault != wire.FaultNone:
		return 0, 0, faults[fault]
	case h.Protocol == wire.ProtoFragment && wire.IsIPv6(ip):
		return 0, 0, errFragment
	case h.Protocol != wire.ProtoUDP:
		return 0, 0, errNotUDP
	}
	return h.End, h.Limit, nil
}

// faults has the errors of the faults of an IP header.
var faults = [...]error{
	wire.FaultIPv6Size:  errHeader,
	wire.FaultIPv4Size:  errHeader,
	wire.FaultVersion:   errVersion,
	wire.FaultIHL:       errIHL,
	wire.FaultTotal:     errUDPHeader,
	wire.FaultFragment:  errFragment,
	wire.FaultExtension: errExtension,
}
