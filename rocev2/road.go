package rocev2

import (
	"math"
	"math/bits"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// Numbers that tunnels are known by, besides those of walk.go.
const (
	etherBridged = 0x6558 // an Ethernet frame, in GRE and Geneve
	etherMPLS    = 0x8847
	etherMPLS2   = 0x8848
	etherERSPAN2 = 0x88BE // type II, and without sequence number type I; in GRE
	etherERSPAN3 = 0x22EB

	protoICMP     = 1
	protoTCP      = 6
	protoGRE      = 47
	protoESP      = 50
	protoAH       = 51
	protoICMPv6   = 58
	protoSCTP     = 132
	protoMPLS     = 137 // RFC 4023
	protoEthernet = 143 // RFC 8986

	portVXLAN  = 4789
	portGeneve = 6081
	portMPLS   = 6635 // RFC 7510
)

// What is wrong with a tunnel.
var (
	errVXLAN      = wireerr.New("rocev2", "VXLAN header", 8, "truncated: 8 octets needed", ErrNotRoCEv2, wireerr.Truncated)
	errVNI        = wireerr.New("rocev2", "VXLAN header", 0, "I flag is 0: no network identifier", ErrNotRoCEv2, wireerr.Malformed)
	errGeneve     = wireerr.New("rocev2", "Geneve header", 8, "truncated: 8 octets and as many of options as Opt Len says needed", ErrNotRoCEv2, wireerr.Truncated)
	errGeneveVer  = wireerr.New("rocev2", "Geneve header", 0, "version is not 0", ErrNotRoCEv2, wireerr.Malformed)
	errLabels     = wireerr.New("rocev2", "MPLS label stack", 4, "truncated: 4 octets a label needed down to the bottom of the stack, and a packet below", ErrNotRoCEv2, wireerr.Truncated)
	errLabelled   = wireerr.New("rocev2", "MPLS label stack", 0, "carries neither IP nor Ethernet with IP", ErrNotRoCEv2)
	errGRE        = wireerr.New("rocev2", "GRE header", 4, "truncated: 4 octets needed, and 4 for each of checksum, key and sequence number", ErrNotRoCEv2, wireerr.Truncated)
	errGREFlags   = wireerr.New("rocev2", "GRE header", 0, "version is not 0, or flags that RFC 2784 refuses", ErrNotRoCEv2, wireerr.Malformed)
	errMirror     = wireerr.New("rocev2", "GRE header", 0, "carries a mirrored frame", ErrNotRoCEv2)
	errERSPAN     = wireerr.New("rocev2", "ERSPAN header", 8, "truncated: 8 octets needed in type II, 12 and 8 for the O flag in type III", ErrNotRoCEv2, wireerr.Truncated)
	errERSPANVer  = wireerr.New("rocev2", "ERSPAN header", 0, "version is not that of its type", ErrNotRoCEv2, wireerr.Malformed)
	errERSPANType = wireerr.New("rocev2", "ERSPAN header", 0, "frame type is neither Ethernet nor IP", ErrNotRoCEv2)
)

// A road is the walk through tunnels down to the innermost IP packet: that of
// D12, and besides IP in IP all that [Tunnel] names. At most 4 IP headers stand
// inside the outermost one, whatever is between them.
type road struct {
	place            // of the innermost packet so far
	octets   []byte  // up to the end of what carries that packet
	limit    int     // the end that its length fields must keep to: that of octets, or none where the rest is cut off
	outerEnd int     // the end of the outermost packet
	tunnels  Tunnels // passed so far
	hops     hops    // the IPv6 headers passed so far, and the present one

	begins    bool   // the present packet has at least the first octet of an IP header
	tolerant  bool   // go on behind an IP length field that lies
	noMirrors bool   // do not look into mirrored frames
	reached   []byte // from the innermost IP header so far to the end of what carries it
}

// follow walks to the innermost packet, and returns the type of what follows
// its IP headers. The fault is one of that packet itself, which breaks off or
// lies about its length, or is a fragment. An error means that there is no IP
// packet, or a tunnel that is broken or carries something else.
func (r *road) follow(b []byte, o DecodeOptions) (next uint8, fault, err error) {
	at, version, ether, err := linkEnd(b, o.Link)
	r.octets, r.limit = b, len(b)
	if o.Cut {
		r.limit = math.MaxInt
	}
	if err == errNotIP && isMPLS(ether) {
		at, version, err = r.labels(b, at)
	}
	r.outer = at
	for depth := 0; err == nil; depth++ {
		if depth > maxDepth {
			return 0, nil, errDepth
		}
		if r.begins = at < len(r.octets) && r.octets[at]>>4 == version; r.begins {
			r.reached = r.octets[at:len(r.octets):len(r.octets)]
		}
		next, fault = r.header(r.octets, at, r.limit, version)
		r.hops.add(&r.place, version)
		if depth == 0 {
			r.outerEnd = min(r.end, len(b))
		}
		if fault == nil && r.lied && !r.tolerant {
			fault = errIPLength
		}
		if fault != nil {
			return next, fault, nil
		}
		at, version, fault, err = r.tunnel(next)
		if version == 0 {
			return next, fault, err
		}
	}
	return 0, nil, err
}

// inside says that what follows is carried by a packet that ends at end, and
// returns the octets up to there.
func (r *road) inside(end int) []byte {
	r.octets, r.limit = r.octets[:min(end, len(r.octets))], end
	return r.octets
}

// tunnel returns where the IP header stands that the tunnel of type next behind
// the present one carries, and its version; 0 when it is no tunnel.
func (r *road) tunnel(next uint8) (at int, version uint8, fault, err error) {
	at = r.udp
	switch next {
	case protoIPv4, protoIPv6:
		version = 4
		if next == protoIPv6 {
			version = 6
		}
		if r.routed() {
			err = r.tunnels.add(SRv6)
		}
		r.inside(r.end)
	case protoEthernet:
		if r.octets[r.ip]>>4 == 6 {
			err = r.tunnels.add(SRv6)
		}
		if err == nil {
			at, version, err = r.frame(r.inside(r.end), at)
		}
	case protoMPLS:
		at, version, err = r.labels(r.inside(r.end), at)
	case protoGRE:
		at, version, err = r.gre(r.inside(r.end), at)
	case protoFragment:
		return 0, 0, ErrFragment, nil
	case protoUDP:
		there := r.octets[:min(r.end, len(r.octets))]
		if fault = r.checkUDP(there, nil); fault == errUDPHeader {
			return 0, 0, fault, nil
		}
		port, end := be.Uint16(there[at+2:]), at+int(be.Uint16(there[at+4:]))
		if fault != nil || port != portVXLAN && port != portGeneve && port != portMPLS {
			return 0, 0, fault, nil
		}
		b := r.inside(end)
		switch at += 8; port {
		case portVXLAN:
			at, version, err = r.vxlan(b, at)
		case portGeneve:
			at, version, err = r.geneve(b, at)
		case portMPLS:
			at, version, err = r.labels(b, at)
		}
	default:
		return 0, 0, nil, nil
	}
	if err != nil {
		version = 0
	}
	return at, version, nil, err
}

// routed tells whether a Segment Routing header (RFC 8754) is among the
// extension headers of the present packet.
func (r *road) routed() bool {
	if r.octets[r.ip]>>4 != 6 {
		return false
	}
	ext := r.octets[r.ext:r.udp]
	for next := r.next; len(ext) > 0; {
		if next == protoRouting && ext[2] == 4 {
			return true
		}
		n := extensionLen(ext, 0)
		next, ext = ext[0], ext[n:]
	}
	return false
}

// frame returns where the IP header in the Ethernet frame at b[at:] stands,
// and its version.
func (r *road) frame(b []byte, at int) (ip int, version uint8, err error) {
	end, version, ether, err := ethernetEnd(b, at)
	if err == errNotIP && isMPLS(ether) {
		return r.labels(b, end)
	}
	return end, version, err
}

func isMPLS(ether uint16) bool { return ether == etherMPLS || ether == etherMPLS2 }

// payload returns the same for what an EtherType announces at b[at:].
func (r *road) payload(ether uint16, b []byte, at int) (ip int, version uint8, err error) {
	switch ether {
	case etherIPv4:
		return at, 4, nil
	case etherIPv6:
		return at, 6, nil
	case etherBridged:
		return r.frame(b, at)
	case etherMPLS, etherMPLS2:
		return r.labels(b, at)
	}
	return 0, 0, errNotIP
}

// labels returns where the IP header below the MPLS label stack at b[at:]
// stands, and its version. S marks the bottom of the stack:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                 Label                 | TC  |S|      TTL      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Nothing says what stands below: IPv4 or IPv6, by their first four bits (RFC
// 3032), or the Ethernet frame of a pseudowire, behind a control word, whose
// first four bits are 0 (RFC 4448), or without one. What fits is taken: IP
// whose lengths are right first, then a frame that leads to IP.
func (r *road) labels(b []byte, at int) (ip int, version uint8, err error) {
	if err := r.tunnels.add(MPLS); err != nil {
		return 0, 0, err
	}
	for bottom := false; !bottom; at += 4 {
		if len(b)-at <= 4 {
			return 0, 0, errLabels
		}
		bottom = b[at+2]&1 != 0
	}
	frame, short := looksLikeFrame(b, at)
	first := b[at] >> 4
	switch {
	case (first == 4 || first == 6) && (!frame || r.fits(b, at)):
		return at, first, nil
	case first == 0:
		behind, behindShort := looksLikeFrame(b, at+4)
		if behind && (!frame || be.Uint16(b[at:]) == 0) {
			return r.frame(b, at+4)
		}
		short = short || behindShort
	}
	switch {
	case frame:
		return r.frame(b, at)
	case short:
		return 0, 0, errLabels
	}
	return 0, 0, errLabelled
}

// looksLikeFrame tells whether an Ethernet frame with IP or MPLS in it begins
// at b[at:]; short, that there are too few octets to tell.
func looksLikeFrame(b []byte, at int) (yes, short bool) {
	end, version, ether, err := ethernetEnd(b, at)
	switch {
	case err == errNotIP:
		return isMPLS(ether), false
	case err != nil, end == len(b):
		return false, true
	}
	return b[end]>>4 == version, false
}

// fits tells whether the lengths of the IP header at b[at:] are right, and its
// protocol is a usual one.
func (r *road) fits(b []byte, at int) bool {
	var p place
	next, err := p.header(b, at, r.limit, b[at]>>4)
	switch {
	case err == ErrFragment:
		return true
	case err != nil, p.lied:
		return false
	}
	switch next {
	case protoICMP, protoIPv4, protoTCP, protoUDP, protoIPv6, protoFragment, protoGRE, protoESP, protoAH, protoICMPv6, protoSCTP, protoMPLS, protoEthernet:
		return true
	}
	return false
}

// vxlan returns where the IP header in the VXLAN packet at b[at:] stands, and
// its version (RFC 7348). An Ethernet frame follows the header:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|R|R|R|R|I|R|R|R|                   Reserved                    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           VXLAN Network Identifier            |   Reserved    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (r *road) vxlan(b []byte, at int) (ip int, version uint8, err error) {
	switch {
	case len(b)-at < 8:
		return 0, 0, errVXLAN
	case b[at]&0x08 == 0:
		return 0, 0, errVNI
	}
	if err := r.tunnels.add(VXLAN); err != nil {
		return 0, 0, err
	}
	return r.frame(b, at+8)
}

// geneve returns where the IP header in the Geneve packet at b[at:] stands, and
// its version (RFC 8926). Opt Len counts 4 octets of options each:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Ver|  Opt Len  |O|C|    Rsvd.  |          Protocol Type        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|        Virtual Network Identifier (VNI)       |    Reserved   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~                    Variable-Length Options                    ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (r *road) geneve(b []byte, at int) (ip int, version uint8, err error) {
	if len(b)-at < 8 {
		return 0, 0, errGeneve
	}
	header := 8 + 4*int(b[at]&0x3F)
	switch {
	case b[at]>>6 != 0:
		return 0, 0, errGeneveVer
	case len(b)-at < header:
		return 0, 0, errGeneve
	}
	if err := r.tunnels.add(Geneve); err != nil {
		return 0, 0, err
	}
	return r.payload(be.Uint16(b[at+2:]), b, at+header)
}

// gre returns where the IP header in the GRE packet at b[at:] stands, and its
// version (RFC 2784, RFC 2890). C, K and S stand for 4 octets each behind the
// first 4: checksum, key, sequence number.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|C|0|K|S|0 0|    Reserved   |Ver|           EtherType           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (r *road) gre(b []byte, at int) (ip int, version uint8, err error) {
	if len(b)-at < 4 {
		return 0, 0, errGRE
	}
	const checksum, key, sequence, refused = 0x8000, 0x2000, 0x1000, 0x4C07
	flags, ether := be.Uint16(b[at:]), be.Uint16(b[at+2:])
	if flags&refused != 0 {
		return 0, 0, errGREFlags
	}
	at += 4 + 4*bits.OnesCount16(flags&(checksum|key|sequence))
	switch {
	case at > len(b):
		return 0, 0, errGRE
	case r.noMirrors && (ether == etherERSPAN2 || ether == etherERSPAN3):
		return 0, 0, errMirror
	case ether == etherERSPAN3:
		return r.erspan3(b, at)
	case ether == etherERSPAN2 && flags&sequence != 0:
		return r.erspan2(b, at)
	}
	tunnel := GRE
	if ether == etherERSPAN2 {
		tunnel, ether = ERSPAN1, etherBridged
	}
	if err := r.tunnels.add(tunnel); err != nil {
		return 0, 0, err
	}
	return r.payload(ether, b, at)
}

// erspan2 returns where the IP header stands in the frame behind the ERSPAN
// header of type II at b[at:], and its version. T says that the switch cut the
// frame:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Ver = 1|         VLAN          | COS | En|T|    Session ID     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|       Reserved        |                 Index                 |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (r *road) erspan2(b []byte, at int) (ip int, version uint8, err error) {
	switch {
	case len(b)-at < 8:
		return 0, 0, errERSPAN
	case b[at]>>4 != 1:
		return 0, 0, errERSPANVer
	}
	if err := r.mirrored(ERSPAN2, b[at+2]); err != nil {
		return 0, 0, err
	}
	return r.frame(b, at+8)
}

// erspan3 is erspan2 for type III. O stands for 8 octets more behind the
// header, FT is the type of what was mirrored:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Ver = 2|         VLAN          | COS |BSO|T|    Session ID     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                           Timestamp                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              SGT              |P|   FT    |   Hw ID   |D|Gra|O|
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (r *road) erspan3(b []byte, at int) (ip int, version uint8, err error) {
	if len(b)-at < 12 {
		return 0, 0, errERSPAN
	}
	const ethernet, isIP = 0, 2
	header, frameType := 12+8*int(b[at+11]&1), b[at+10]>>2&0x1F
	switch {
	case b[at]>>4 != 2:
		return 0, 0, errERSPANVer
	case len(b)-at < header, frameType == isIP && len(b)-at == header:
		return 0, 0, errERSPAN
	case frameType != ethernet && frameType != isIP:
		return 0, 0, errERSPANType
	}
	if err := r.mirrored(ERSPAN3, b[at+2]); err != nil {
		return 0, 0, err
	}
	at += header
	if frameType == ethernet {
		return r.frame(b, at)
	}
	if version = b[at] >> 4; version != 4 && version != 6 {
		return 0, 0, errVersion
	}
	return at, version, nil
}

// mirrored notes an ERSPAN header whose third octet, with T in it, is given.
// What a switch cut may go on beyond the octets there.
func (r *road) mirrored(tunnel Tunnel, third byte) error {
	if third&0x04 != 0 {
		r.limit = math.MaxInt
	}
	return r.tunnels.add(tunnel)
}
