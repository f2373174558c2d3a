package rocev2

import (
	"encoding/binary"
	"math"
	"slices"
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

// EtherTypes and protocol numbers that the walk follows.
const (
	etherIPv4     = 0x0800
	etherIPv6     = 0x86DD
	etherVLAN     = 0x8100 // IEEE 802.1Q
	etherSVID     = 0x88A8 // IEEE 802.1ad
	etherVLAN9100 = 0x9100 // stacked tags before 802.1ad

	protoHopByHop = 0
	protoIPv4     = 4
	protoUDP      = 17
	protoIPv6     = 41
	protoRouting  = 43
	protoFragment = 44
	protoDestOpts = 60
)

// maxDepth is how many IP headers may stand inside the outermost one (D12).
const maxDepth = 4

// place says where the headers of one packet stand: offsets into its octets.
type place struct {
	outer int   // the outermost IP header
	ip    int   // the innermost IP header
	ext   int   // its options or extension headers
	udp   int   // the UDP header, or whatever follows the IP headers
	end   int   // the end of the innermost IP packet, by its own length field
	next  uint8 // its Protocol or Next Header field
	lied  bool  // an IP length field runs beyond the octets there
}

// find walks b to the UDP header of a datagram to one of these ports, or to any. The end of every IP packet is the one that
// its length field gives; a length field that lies, and everything about UDP
// itself, counts only once the port is known to be a wanted one (D12).
func (p *place) find(b []byte, o DecodeOptions, ports []uint16) error {
	at, version, _, err := linkEnd(b, o.Link)
	if err != nil {
		return err
	}
	p.outer = at
	limit := len(b) // the end of the packet around this one
	if o.Cut {
		limit = math.MaxInt
	}
	for depth := 0; ; depth++ {
		next, err := p.header(b, at, limit, version)
		if err != nil {
			return err
		}
		at, limit = p.udp, p.end
		switch next {
		case protoUDP:
			return p.checkUDP(b[:min(p.end, len(b))], ports)
		case protoIPv4:
			version = 4
		case protoIPv6:
			version = 6
		case protoFragment:
			return ErrFragment
		default:
			return errNotUDP
		}
		if depth == maxDepth {
			return errDepth
		}
	}
}

// header finds the places of the IP header of this version at b[at:], of its
// extension headers and of what follows them, whose type it returns. The
// packet around this one ends at limit. On error ext and udp are around the
// extension headers that are whole.
func (p *place) header(b []byte, at, limit int, version uint8) (next uint8, err error) {
	b = b[:min(limit, len(b))]
	p.ip, p.ext, p.udp = at, at, at
	if version != 6 {
		return p.ipv4(b, at, limit)
	}
	if len(b)-at < 40 {
		return 0, errIPv6Header
	}
	ip := b[at : at+40]
	if ip[0]>>4 != 6 {
		return 0, errVersion
	}
	at += 40
	next = ip[6]
	p.next, p.ext = next, at
	p.endAt(at+int(be.Uint16(ip[4:])), limit)
	b = b[:min(p.end, len(b))]
	for isExtension(next) {
		n := extensionLen(b, at)
		if n == 0 {
			p.udp = at
			return 0, errExtension
		}
		next, at = b[at], at+n
	}
	p.udp = at
	return next, nil
}

// ipv4 is header for IPv4. Fragments are refused.
func (p *place) ipv4(b []byte, at, limit int) (next uint8, err error) {
	there := len(b) - at
	if there < 20 {
		return 0, errIPv4Header
	}
	ip := b[at : at+20]
	n, total := int(ip[0]&0x0F)*4, int(be.Uint16(ip[2:]))
	switch {
	case ip[0]>>4 != 4:
		return 0, errVersion
	case n < 20:
		return 0, errIHL
	case there < n:
		return 0, errIPv4Header
	case total < n:
		return 0, errTotal
	case be.Uint16(ip[6:])&0x3FFF != 0: // More Fragments, or an offset
		return 0, ErrFragment
	}
	p.next, p.ext, p.udp = ip[9], at+20, at+n
	p.endAt(at+total, limit)
	return p.next, nil
}

// endAt sets the end of the innermost packet, which is not beyond the one
// around it.
func (p *place) endAt(end, limit int) {
	p.end = min(end, limit)
	p.lied = p.lied || end > limit
}

// checkUDP checks the UDP header and its length against the octets there,
// which end where the IP packet or the capture does.
func (p *place) checkUDP(there []byte, ports []uint16) error {
	if len(there)-p.udp < 8 {
		return errUDPHeader
	}
	udp := there[p.udp : p.udp+8]
	if len(ports) > 0 && !slices.Contains(ports, be.Uint16(udp[2:])) {
		return ErrPort
	}
	length := int(be.Uint16(udp[4:]))
	switch {
	case length < 8:
		return errUDPLength
	case p.lied:
		return errIPLength
	case p.udp+length > p.end:
		return errUDPBeyondIP
	}
	return nil
}

// ethernetEnd returns where the IP header in the Ethernet frame at b[at:] stands,
// and its version. With errNotIP it returns the end of the frame's header and the
// EtherType, which is another.
func ethernetEnd(b []byte, at int) (end int, version uint8, ether uint16, err error) {
	return etherEnd(b, at+12, at+14, errFrame)
}

// isExtension says whether the walk steps over headers of this type (D12).
func isExtension(next uint8) bool {
	return next == protoHopByHop || next == protoRouting || next == protoDestOpts
}

// extensionLen returns the length of the extension header at b[at:], 0 when
// it is not all there.
func extensionLen(b []byte, at int) int {
	if len(b)-at < 8 {
		return 0
	}
	n := (int(b[at+1]) + 1) * 8
	if len(b)-at < n {
		return 0
	}
	return n
}
