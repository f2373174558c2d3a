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
	udp   int   // the UDP header
	end   int   // the end of the innermost IP packet, by its own length field
	next  uint8 // its Protocol or Next Header field
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
	lied := false
	for depth := 0; ; depth++ {
		p.ip = at
		ip, err := readIP(b[:min(limit, len(b))], at, version)
		if err != nil {
			return err
		}
		if lied = lied || ip.end > limit; ip.end > limit {
			ip.end = limit
		}
		p.next, p.end, limit = ip.next, ip.end, ip.end
		there := b[:min(limit, len(b))]
		p.ext = at + ip.fixed
		at += ip.len
		next := ip.next
		if version == 6 {
			for isExtension(next) {
				n := extensionLen(there, at)
				if n == 0 {
					return ErrExtension
				}
				next, at = b[at], at+n
			}
		}
		switch next {
		case protoUDP:
			p.udp = at
			return p.checkUDP(there, o, lied)
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

// checkUDP checks the UDP header and its length against the octets there,
// which end where the IP packet or the capture does.
func (p *place) checkUDP(there []byte, o *Options, lied bool) error {
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
	case lied:
		return ErrIPLength
	case p.udp+length > p.end:
		return ErrUDPBeyondIP
	}
	return nil
}

// linkEnd returns where the IP header stands, behind the Ethernet header and
// its VLAN tags if there is one, and the IP version that is due there.
func linkEnd(b []byte, o *Options) (end int, version uint8, err error) {
	if o.IP {
		if len(b) > 0 {
			version = b[0] >> 4
		}
		return 0, version, nil
	}
	for end = 14; end <= len(b); end += 4 {
		switch be.Uint16(b[end-2:]) {
		case etherIPv6:
			return end, 6, nil
		case etherIPv4:
			return end, 4, nil
		case etherVLAN, etherSVID:
		default:
			return 0, 0, ErrNotIP
		}
	}
	return 0, 0, ErrFrame
}

// ipHeader is what the walk needs of an IP header.
type ipHeader struct {
	fixed int   // octets before IPv4 options or IPv6 extension headers
	len   int   // octets with IPv4 options, without IPv6 extension headers
	end   int   // offset of the end of the packet, by its length field
	next  uint8 // Protocol or Next Header
}

// readIP reads the IP header at b[at:] after checking that it is whole, of
// this version and no fragment.
func readIP(b []byte, at int, version uint8) (h ipHeader, err error) {
	there := len(b) - at
	if version == 6 {
		if there < 40 {
			return h, ErrIPv6Header
		}
		ip := b[at : at+40]
		if ip[0]>>4 != 6 {
			return h, ErrVersion
		}
		return ipHeader{fixed: 40, len: 40, end: at + 40 + int(be.Uint16(ip[4:])), next: ip[6]}, nil
	}
	if there < 20 {
		return h, ErrIPv4Header
	}
	ip := b[at : at+20]
	if ip[0]>>4 != 4 {
		return h, ErrVersion
	}
	h = ipHeader{fixed: 20, len: int(ip[0]&0x0F) * 4, end: at + int(be.Uint16(ip[2:])), next: ip[9]}
	switch {
	case h.len < 20:
		return h, ErrIHL
	case there < h.len:
		return h, ErrIPv4Header
	case h.end < at+h.len:
		return h, ErrTotal
	case be.Uint16(ip[6:])&0x3FFF != 0: // More Fragments, or an offset
		return h, ErrFragment
	}
	return h, nil
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
