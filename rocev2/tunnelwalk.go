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
	errVXLAN = wireerr.New("rocev2", "VXLAN header", 8,
		"truncated: 8 octets needed", ErrNotRoCEv2, wireerr.Truncated)
	errVNI = wireerr.New("rocev2", "VXLAN header", 0,
		"I flag is 0: no network identifier", ErrNotRoCEv2, wireerr.Malformed)
	errGeneve = wireerr.New("rocev2", "Geneve header", 8,
		"truncated: 8 octets and as many of options as Opt Len says needed", ErrNotRoCEv2, wireerr.Truncated)
	errGeneveVer = wireerr.New("rocev2", "Geneve header", 0,
		"version is not 0", ErrNotRoCEv2, wireerr.Malformed)
	errLabels = wireerr.New("rocev2", "MPLS label stack", 4,
		"truncated: 4 octets a label needed down to the bottom of the stack, and a packet below", ErrNotRoCEv2,
		wireerr.Truncated)
	errLabelled = wireerr.New("rocev2", "MPLS label stack", 0,
		"carries neither IP nor Ethernet with IP", ErrNotRoCEv2)
	errGRE = wireerr.New("rocev2", "GRE header", 4,
		"truncated: 4 octets needed, and 4 for each of checksum, key and sequence number", ErrNotRoCEv2,
		wireerr.Truncated)
	errGREFlags = wireerr.New("rocev2", "GRE header", 0,
		"version is not 0, or flags that RFC 2784 refuses", ErrNotRoCEv2, wireerr.Malformed)
	errMirror = wireerr.New("rocev2", "GRE header", 0, "carries a mirrored frame", ErrNotRoCEv2)
	errERSPAN = wireerr.New("rocev2", "ERSPAN header", 8,
		"truncated: 8 octets needed in type II, 12 and 8 for the O flag in type III", ErrNotRoCEv2, wireerr.Truncated)
	errERSPANVer = wireerr.New("rocev2", "ERSPAN header", 0,
		"version is not that of its type", ErrNotRoCEv2, wireerr.Malformed)
	errERSPANType = wireerr.New("rocev2", "ERSPAN header", 0,
		"frame type is neither Ethernet nor IP", ErrNotRoCEv2)
)

// A way is a walk through tunnels, with its trail.
type way struct {
	*walk
	*trail
	// border goes on behind an IP header whose length field says more than there is, and does not look into
	// mirrored frames.
	border bool
}

// carries says whether a tunnel may stand where a walk has ended.
func (w *walk) carries(b []byte) bool {
	switch w.err {
	case nil:
		return isTunnelPort(be.Uint16(b[w.udp+2:]))
	case errNotUDP:
		return w.proto == protoEthernet || w.proto == protoMPLS || w.proto == protoGRE
	case errNotIP:
		return isMPLS(w.ether)
	}
	return false
}

// descend goes on from where follow has ended, through all that [Tunnel] names, down to the
// innermost IP packet. An error means that a tunnel is broken or carries something else than IP.
// What is wrong with the innermost packet is w.err.
func (w way) descend(b []byte) error {
	for w.carries(b) {
		switch stop := w.stop; {
		case !w.border && (w.overruns || !w.cut && w.missing):
			return nil
		case w.err == errNotIP: // labels right behind the link-layer header
			if err := w.labels(b, w.link); err != nil {
				return err
			}
			w.outer = w.ip
		case w.err == nil && w.check(b, w.cut, nil) != nil:
			return nil
		default:
			if err := w.tunnel(b); err != nil {
				w.stop = stop
				return err
			}
			w.depth++
		}
		if w.err = w.follow(b, w.trail); w.err == errDepth || w.err == errTunnels {
			return w.err
		}
	}
	return nil
}

// tunnel reaches the IP header that the tunnel behind the present one carries. So do the functions below,
// each for what stands at b[at:].
func (w way) tunnel(b []byte) error {
	at, proto := w.udp, w.proto
	_ = w.pass(b, w.walk, false)
	switch proto {
	case protoEthernet:
		if w.version == 6 {
			return w.payload(SRv6, etherBridged, w.inside(b, w.end), at)
		}
		return w.frame(w.inside(b, w.end), at)
	case protoMPLS:
		return w.labels(w.inside(b, w.end), at)
	case protoGRE:
		return w.gre(w.inside(b, w.end), at)
	}
	inside := w.inside(b, at+int(be.Uint16(b[at+4:])))
	switch be.Uint16(b[at+2:]) {
	case portVXLAN:
		return w.vxlan(inside, at+8)
	case portGeneve:
		return w.geneve(inside, at+8)
	}
	return w.labels(inside, at+8)
}

func isTunnelPort(port uint16) bool {
	return port == portVXLAN || port == portGeneve || port == portMPLS
}

// payload notes a tunnel and reaches what its EtherType announces.
func (w way) payload(tunnel Tunnel, ether uint16, b []byte, at int) error {
	if err := w.tunnels.add(tunnel); err != nil {
		return err
	}
	switch ether {
	case etherIPv4:
		w.reach(at, 4)
	case etherIPv6:
		w.reach(at, 6)
	case etherBridged:
		return w.frame(b, at)
	case etherMPLS, etherMPLS2:
		return w.labels(b, at)
	default:
		return errNotIP
	}
	return nil
}

// frame is for an Ethernet frame.
func (w way) frame(b []byte, at int) error {
	end, version, ether, err := ethernetEnd(b, at)
	switch {
	case err == errNotIP && isMPLS(ether):
		return w.labels(b, end)
	case err == nil:
		w.reach(end, version)
	}
	return err
}

// ethernetEnd returns where the IP header in the Ethernet frame at b[at:] stands,
// and its version. With errNotIP it returns the end of the frame's header and the
// EtherType, which is another.
func ethernetEnd(b []byte, at int) (end int, version uint8, ether uint16, err error) {
	return etherEnd(b, at+12, at+ethernetSize, errFrame)
}

func isMPLS(ether uint16) bool { return ether == etherMPLS || ether == etherMPLS2 }

// labels is for an MPLS label stack. S marks the bottom of it:
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
func (w way) labels(b []byte, at int) error {
	if err := w.tunnels.add(MPLS); err != nil {
		return err
	}
	for bottom := false; !bottom; at += 4 {
		if len(b)-at <= 4 {
			return errLabels
		}
		bottom = b[at+2]&1 != 0
	}
	frame, short := looksLikeFrame(b, at)
	first := b[at] >> 4
	switch {
	case (first == 4 || first == 6) && (!frame || w.fits(b, at)):
		w.reach(at, first)
		return nil
	case first == 0:
		behind, behindShort := looksLikeFrame(b, at+4)
		if behind && (!frame || be.Uint16(b[at:]) == 0) {
			return w.frame(b, at+4)
		}
		short = short || behindShort
	}
	switch {
	case frame:
		return w.frame(b, at)
	case short:
		return errLabels
	}
	return errLabelled
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
func (w way) fits(b []byte, at int) bool {
	var p walk
	p.start(b, at, b[at]>>4, w.cut)
	p.limit = w.limit
	switch err := p.header(b); {
	case err == ErrFragment:
		return true
	case err != nil, p.overruns, !p.cut && p.end > len(b):
		return false
	}
	switch p.proto {
	case protoICMP, protoIPv4, protoTCP, protoUDP, protoIPv6, protoFragment, protoGRE, protoESP, protoAH, protoICMPv6,
		protoSCTP, protoMPLS, protoEthernet:
		return true
	}
	return false
}

// vxlan is for a VXLAN header (RFC 7348), which an Ethernet frame follows:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|R|R|R|R|I|R|R|R|                   Reserved                    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           VXLAN Network Identifier            |   Reserved    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (w way) vxlan(b []byte, at int) error {
	switch {
	case len(b)-at < 8:
		return errVXLAN
	case b[at]&0x08 == 0:
		return errVNI
	}
	return w.payload(VXLAN, etherBridged, b, at+8)
}

// geneve is for a Geneve header (RFC 8926). Opt Len counts 4 octets of options each:
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
func (w way) geneve(b []byte, at int) error {
	if len(b)-at < 8 {
		return errGeneve
	}
	header := 8 + 4*int(b[at]&0x3F)
	switch {
	case b[at]>>6 != 0:
		return errGeneveVer
	case len(b)-at < header:
		return errGeneve
	}
	return w.payload(Geneve, be.Uint16(b[at+2:]), b, at+header)
}

// gre is for a GRE header (RFC 2784, RFC 2890). C, K and S stand for 4 octets each
// behind the first 4: checksum, key, sequence number.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|C|0|K|S|0 0|    Reserved   |Ver|           EtherType           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (w way) gre(b []byte, at int) error {
	if len(b)-at < 4 {
		return errGRE
	}
	const checksum, key, sequence, refused = 0x8000, 0x2000, 0x1000, 0x4C07
	flags, ether := be.Uint16(b[at:]), be.Uint16(b[at+2:])
	if flags&refused != 0 {
		return errGREFlags
	}
	at += 4 + 4*bits.OnesCount16(flags&(checksum|key|sequence))
	switch {
	case at > len(b):
		return errGRE
	case w.border && (ether == etherERSPAN2 || ether == etherERSPAN3):
		return errMirror
	case ether == etherERSPAN3:
		return w.erspan3(b, at)
	case ether == etherERSPAN2 && flags&sequence != 0:
		return w.erspan2(b, at)
	}
	if ether == etherERSPAN2 {
		return w.payload(ERSPAN1, etherBridged, b, at)
	}
	return w.payload(GRE, ether, b, at)
}

// erspan2 is for an ERSPAN header of type II. T says that the switch cut the frame behind it:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Ver = 1|         VLAN          | COS | En|T|    Session ID     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|       Reserved        |                 Index                 |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (w way) erspan2(b []byte, at int) error {
	switch {
	case len(b)-at < 8:
		return errERSPAN
	case b[at]>>4 != 1:
		return errERSPANVer
	}
	return w.mirrored(ERSPAN2, b[at+2], etherBridged, b, at+8)
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
func (w way) erspan3(b []byte, at int) error {
	if len(b)-at < 12 {
		return errERSPAN
	}
	const ethernet, isIP = 0, 2
	header, frameType := 12+8*int(b[at+11]&1), b[at+10]>>2&0x1F
	switch {
	case b[at]>>4 != 2:
		return errERSPANVer
	case len(b)-at < header, frameType == isIP && len(b)-at == header:
		return errERSPAN
	case frameType != ethernet && frameType != isIP:
		return errERSPANType
	}
	third, ether := b[at+2], uint16(etherBridged)
	at += header
	if frameType == isIP {
		switch b[at] >> 4 {
		case 4:
			ether = etherIPv4
		case 6:
			ether = etherIPv6
		default:
			return errVersion
		}
	}
	return w.mirrored(ERSPAN3, third, ether, b, at)
}

// mirrored is payload behind an ERSPAN header whose third octet, with T in it, is given. What a switch
// cut may go on beyond the octets there.
func (w way) mirrored(tunnel Tunnel, third byte, ether uint16, b []byte, at int) error {
	if third&0x04 != 0 {
		w.limit, w.cut = math.MaxInt, true
	}
	return w.payload(tunnel, ether, b, at)
}
