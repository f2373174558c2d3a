package rocev2

import (
	"encoding/binary"
	"math"
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

// EtherTypes and protocol numbers that the walk follows.
const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86DD
	etherVLAN = 0x8100 // IEEE 802.1Q
	etherSVID = 0x88A8 // IEEE 802.1ad

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

// find walks b to the UDP header. The end of every IP packet is the one that
// its length field gives; a length field that lies, and everything about UDP
// itself, counts only once the port is known to be a wanted one (D12).
func (p *place) find(b []byte, o *Options) error {
	at, version, err := linkEnd(b, o)
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
			return p.checkUDP(b[:min(p.end, len(b))], o)
		case protoIPv4:
			version = 4
		case protoIPv6:
			version = 6
		case protoFragment:
			return ErrFragment
		default:
			return ErrNotUDP
		}
		if depth == maxDepth {
			return ErrDepth
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
		return 0, ErrIPv6Header
	}
	ip := b[at : at+40]
	if ip[0]>>4 != 6 {
		return 0, ErrVersion
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
			return 0, ErrExtension
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
		return 0, ErrIPv4Header
	}
	ip := b[at : at+20]
	n, total := int(ip[0]&0x0F)*4, int(be.Uint16(ip[2:]))
	switch {
	case ip[0]>>4 != 4:
		return 0, ErrVersion
	case n < 20:
		return 0, ErrIHL
	case there < n:
		return 0, ErrIPv4Header
	case total < n:
		return 0, ErrTotal
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
func (p *place) checkUDP(there []byte, o *Options) error {
	if len(there)-p.udp < 8 {
		return ErrUDPHeader
	}
	udp := there[p.udp : p.udp+8]
	if !o.wants(be.Uint16(udp[2:])) {
		return ErrPort
	}
	length := int(be.Uint16(udp[4:]))
	switch {
	case length < 8:
		return ErrUDPLength
	case p.lied:
		return ErrIPLength
	case p.udp+length > p.end:
		return ErrUDPBeyondIP
	}
	return nil
}

// linkEnd returns where the IP header stands, behind the Ethernet header and
// its VLAN tags if there is one, and the IP version that is due there.
func linkEnd(b []byte, o *Options) (end int, version uint8, err error) {
	if !o.IP {
		return ethernetEnd(b, 0)
	}
	if len(b) > 0 {
		version = b[0] >> 4
	}
	return
}

// ethernetEnd is linkEnd for the Ethernet header at b[at:]. With ErrNotIP it
// returns the end as well, behind the EtherType that is another.
func ethernetEnd(b []byte, at int) (end int, version uint8, err error) {
	for end = at + 14; end <= len(b); end += 4 {
		switch be.Uint16(b[end-2:]) {
		case etherIPv6:
			return end, 6, nil
		case etherIPv4:
			return end, 4, nil
		case etherVLAN, etherSVID:
		default:
			return end, 0, ErrNotIP
		}
	}
	return 0, 0, ErrFrame
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
