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
	if len(ip) < wire.IPv4Size {
		return p, errHeader
	}
	h, fault := wire.ReadIP(ip, 0, wire.VersionField(ip))
	switch {
	case fault != wire.FaultNone:
		return p, faults[fault]
	case h.Protocol == wire.ProtoFragment && wire.IsIPv6(ip):
		return p, errFragment
	case h.Protocol != wire.ProtoUDP:
		return p, errNotUDP
	case h.End+wire.UDPSize > min(h.Limit, len(ip)):
		return p, errUDPHeader
	}
	p.ext, p.udp = wire.FixedSize(ip), h.End
	length := int(wire.UDPLength(ip[p.udp:]))
	end := p.udp + length
	p.end = end - wire.ICRCSize
	switch {
	case length < minUDP:
		return p, errRoom
	case h.Limit > len(ip):
		return p, errIPLength
	case end <= h.Limit:
		return p, nil
	case end > len(ip):
		return p, errUDPTruncated
	}
	return p, errUDPBeyondIP
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
