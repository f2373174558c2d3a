package rocev2

import (
	"math"
	"math/bits"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// ErrMirrored means that the packet is a copy, sent by a mirror, of a packet that passed another node. Nothing below
// the mirror's headers is addressed to this node.
var ErrMirrored = wireerr.New("rocev2", "GRE header", "carries a mirrored frame", ErrNotRoCEv2)

// Errors of tunnels.
var (
	errVXLAN = wireerr.New("rocev2", "VXLAN header",
		"truncated: shorter than 8 octets", ErrNotRoCEv2, wireerr.Truncated)
	errVNI = wireerr.New("rocev2", "VXLAN header",
		"I flag is 0: no network identifier", ErrNotRoCEv2, wireerr.Malformed)
	errGeneve = wireerr.New("rocev2", "Geneve header",
		"truncated: shorter than 8 octets and the options of its Opt Len", ErrNotRoCEv2, wireerr.Truncated)
	errGeneveVer = wireerr.New("rocev2", "Geneve header",
		"version is not 0", ErrNotRoCEv2, wireerr.Malformed)
	errLabels = wireerr.New("rocev2", "MPLS label stack",
		"truncated: ends before the bottom of the stack, or at it without a packet", ErrNotRoCEv2,
		wireerr.Truncated)
	errLabelled = wireerr.New("rocev2", "MPLS label stack",
		"carries neither IP nor Ethernet with IP", ErrNotRoCEv2)
	errGRE = wireerr.New("rocev2", "GRE header",
		"truncated: shorter than 4 octets and 4 each for checksum, key and sequence number", ErrNotRoCEv2,
		wireerr.Truncated)
	errGREFlags = wireerr.New("rocev2", "GRE header",
		"version is not 0, or flags that RFC 2784 does not allow", ErrNotRoCEv2, wireerr.Malformed)
	errERSPAN = wireerr.New("rocev2", "ERSPAN header",
		"truncated: shorter than 8 octets in type II, 12 in type III, or 20 with its O flag",
		ErrNotRoCEv2, wireerr.Truncated)
	errERSPANVer = wireerr.New("rocev2", "ERSPAN header",
		"version does not match its GRE protocol type", ErrNotRoCEv2, wireerr.Malformed)
	errERSPANType = wireerr.New("rocev2", "ERSPAN header",
		"frame type is neither Ethernet nor IP", ErrNotRoCEv2)
)

// A way is a walk through tunnels, with the headers passed so far.
type way struct {
	walk
	trail
	// border makes the walk continue after an IP header with a length field that exceeds the octets, and stop before
	// mirrored frames.
	border bool

	encapsulations *Encapsulations // of the options of the frame; nil for the standard ones

	mirror    uint8 // 0 without a mirror, otherwise 1 + index in packets of the outermost mirror's own packet
	mirrorEnd int   // end of the octets of the outermost mirror's own IP packet

	// Begin and end of the header of the Ethernet frame around the packet reached, and of the frame around the packet
	// at begin. If there is no such frame, both are the same offset.
	ethernet, ethernetEnd           int
	outerEthernet, outerEthernetEnd int
}

// octets returns the packet that the walk has reached, up to the end of the packet around it; if there is no IP
// header, the last passed packet.
func (w *way) octets(b []byte) []byte {
	if !w.begins(b) {
		return w.last(b)
	}
	return b[w.ip:w.stop:w.stop]
}

// beginStop returns the end of the octets of the packet around that at begin.
func (w *way) beginStop() int {
	for _, p := range w.packets[:w.n] {
		if int(p.ip) == w.begin {
			return int(p.stop)
		}
	}
	return w.stop
}

// carries reports whether a tunnel may begin where a walk has ended.
func (w *way) carries() bool {
	switch {
	case w.err == nil:
		return w.encapsulations.isTunnelPort(w.port)
	// compared before w.err, because comparing errors takes longer
	case w.proto == wire.ProtoEthernet, w.proto == wire.ProtoMPLS, w.proto == wire.ProtoGRE:
		return w.err == errNotUDP || w.err == errNotIP && wire.IsMPLS(w.ether)
	}
	return wire.IsMPLS(w.ether) && w.err == errNotIP
}

// descendMirrors continues after follow through the mirrors that begin at its end, to the outermost packet of the
// copied frame and through IP in IP. The walk stays at a mirror that carries no IP.
func (w *way) descendMirrors(b []byte) {
	for w.err == errNotUDP && w.carriesMirror(b) && !w.overruns {
		before := *w
		if w.tunnel(b) != nil || !w.followCopy(b, before.udp) {
			*w = before
			return
		}
		if w.mirror == 0 {
			w.mirror, w.mirrorEnd = before.n+1, before.beginEnd
		}
	}
}

// followCopy begins the outer view at the outermost packet of the frame copied by a mirror with its GRE header at gre,
// and continues through IP in IP. It reports whether there is an IP header.
func (w *way) followCopy(b []byte, gre int) bool {
	w.begin, w.beginEnd, w.depth = w.ip, 0, w.depth+1
	if w.outerEthernet, w.outerEthernetEnd = w.ethernet, w.ethernetEnd; w.ethernet < gre {
		w.outerEthernetEnd = w.outerEthernet
	}
	w.err = w.follow(b, &w.trail)
	return w.err != errDepth && w.err != errTunnels && w.begins(b)
}

// carriesMirror reports whether the packet reached by follow carries a frame copied by a mirror.
func (w *walk) carriesMirror(b []byte) bool {
	if w.proto != wire.ProtoGRE || min(w.end, w.stop)-w.udp < 4 {
		return false
	}
	return isMirrorType(be.Uint16(b[w.udp+2:]))
}

// isMirrorType reports whether a protocol type of GRE is that of a frame copied by a mirror.
func isMirrorType(ether uint16) bool {
	return ether == wire.EtherERSPAN2 || ether == wire.EtherERSPAN3 || ether == wire.EtherMirror8949
}

// descend continues after follow, at the tunnel that begins at its end, through every [Tunnel] down to the innermost IP
// packet. An error means that a tunnel is malformed or does not carry IP. An error of the innermost packet itself is in
// w.err.
func (w *way) descend(b []byte) error {
	for {
		switch stop := w.stop; {
		case w.err == nil && w.checkLength(b, true) != nil, w.err != nil && !w.border && w.overruns:
			return nil
		case w.err == errNotIP: // labels directly after the link-layer header
			if err := w.labels(b, w.link); err != nil {
				return err
			}
			w.outer, w.begin = w.ip, w.ip
			w.outerEthernet, w.outerEthernetEnd = w.ethernet, w.ethernetEnd
		default:
			if err := w.tunnel(b); err != nil {
				w.stop = stop
				return err
			}
			w.depth++
		}
		err := w.follow(b, &w.trail)
		switch w.err = err; {
		case err == errDepth, err == errTunnels:
			return err
		case !w.carries():
			return nil
		}
	}
}

// tunnel moves the walk to the IP header that the next tunnel carries. Each of the functions below does so for one type
// of header, at b[at:].
func (w *way) tunnel(b []byte) error {
	w.pass(&w.walk)
	at := w.udp
	if w.proto == wire.ProtoUDP {
		b = w.inside(b, at+int(w.length))
		return w.tunnelInUDP(b, at+wire.UDPSize)
	}
	b = w.inside(b, w.end)
	switch {
	case w.proto == wire.ProtoMPLS:
		return w.labels(b, at)
	case w.proto == wire.ProtoGRE:
		return w.gre(b, at)
	case w.version == 6: // wire.ProtoEthernet
		return w.payload(SRv6, wire.EtherBridged, b, at)
	}
	return w.frame(b, at)
}

// payload adds a tunnel, and moves the walk into its payload at b[at:], which has this EtherType.
func (w *way) payload(tunnel Tunnel, ether uint16, b []byte, at int) error {
	if err := w.add(tunnel); err != nil {
		return err
	}
	switch ether {
	case wire.EtherIPv4:
		w.reach(at, 4)
	case wire.EtherIPv6:
		w.reach(at, 6)
	case wire.EtherBridged:
		return w.frame(b, at)
	case wire.EtherMPLS, wire.EtherMPLS2:
		return w.labels(b, at)
	default:
		return errNotIP
	}
	return nil
}

// frame moves the walk into an Ethernet frame.
func (w *way) frame(b []byte, at int) error {
	end, version, ether, err := etherEnd(b, at+12, at+wire.EthernetSize, w.encapsulations.csigTPID(), errFrame)
	switch {
	case err == nil:
		w.reach(end, version)
	case wire.IsMPLS(ether) && err == errNotIP:
		err = w.labels(b, end)
	}
	if err == nil && w.ethernetEnd <= at { // it was not set by a frame inside labels
		w.ethernet, w.ethernetEnd = at, end
	}
	return err
}

// labels moves the walk through an MPLS label stack. S is 1 in its last label:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                 Label                 | TC  |S|      TTL      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// The stack does not identify its payload. The payload is IPv4 or IPv6, recognized by the first four bits (RFC 3032),
// or the Ethernet frame of a pseudowire, with or without a control word before it. The first four bits of a control
// word are 0 (RFC 4448). labels takes the first payload that fits: IP with correct lengths, then a frame that carries
// IP.
func (w *way) labels(b []byte, at int) error {
	if err := w.add(MPLS); err != nil {
		return err
	}
	for bottom := false; !bottom; at += 4 {
		if len(b)-at <= 4 {
			return errLabels
		}
		bottom = b[at+2]&1 != 0
	}
	frame, short := w.looksLikeFrame(b, at)
	first := wire.VersionField(b[at:])
	switch {
	case (first == wire.IPv4 || first == wire.IPv6) && (!frame || w.fits(b, at)):
		w.reach(at, first)
		return nil
	case first == 0:
		behind, behindShort := w.looksLikeFrame(b, at+4)
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

// looksLikeFrame reports whether an Ethernet frame with IP or MPLS begins at b[at:]. short reports whether there are
// too few octets to decide.
func (w *way) looksLikeFrame(b []byte, at int) (yes, short bool) {
	end, version, ether, err := etherEnd(b, at+12, at+wire.EthernetSize, w.encapsulations.csigTPID(), errFrame)
	switch {
	case err == errNotIP:
		return wire.IsMPLS(ether), false
	case err != nil, end == len(b):
		return false, true
	}
	return wire.VersionField(b[end:]) == version, false
}

// fits reports whether the lengths of the IP header at b[at:] are right and its protocol is a common one.
func (w *way) fits(b []byte, at int) bool {
	var p walk
	p.start(b, at, wire.VersionField(b[at:]), w.allowTruncated)
	p.limit = w.limit
	if err := p.header(b); err != nil && err != ErrFragment || p.overruns ||
		!w.allowTruncated && !w.missing && p.end > len(b) {
		return false
	}
	switch p.proto {
	case wire.ProtoICMP, wire.ProtoIPv4, wire.ProtoTCP, wire.ProtoUDP, wire.ProtoIPv6, wire.ProtoFragment,
		wire.ProtoGRE, wire.ProtoESP, wire.ProtoAH, wire.ProtoICMPv6,
		wire.ProtoSCTP, wire.ProtoMPLS, wire.ProtoEthernet:
		return true
	}
	return false
}

// vxlan moves the walk through a VXLAN header (RFC 7348) into the Ethernet frame after it:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|R|R|R|R|I|R|R|R|                   Reserved                    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           VXLAN Network Identifier            |   Reserved    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (w *way) vxlan(b []byte, at int) error {
	switch h := b[at:]; {
	case len(h) < 8:
		return errVXLAN
	case h[0]&0x08 == 0:
		return errVNI
	}
	return w.payload(VXLAN, wire.EtherBridged, b, at+8)
}

// geneve moves the walk through a Geneve header (RFC 8926). Opt Len is in units of 4 octets:
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
func (w *way) geneve(b []byte, at int) error {
	h := b[at:]
	if len(h) < 8 {
		return errGeneve
	}
	size := 8 + 4*int(h[0]&0x3F)
	switch {
	case h[0]>>6 != 0:
		return errGeneveVer
	case len(h) < size:
		return errGeneve
	}
	return w.payload(Geneve, be.Uint16(h[2:]), b, at+size)
}

// gre moves the walk through a GRE header (RFC 2784, RFC 2890). Each of C, K and S adds 4 octets after the first 4:
// checksum, key and sequence number.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|C|0|K|S|0 0|    Reserved   |Ver|           EtherType           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (w *way) gre(b []byte, at int) error {
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
	case w.border && isMirrorType(ether):
		return ErrMirrored
	case ether == wire.EtherERSPAN3:
		return w.erspan3(b, at)
	case ether == wire.EtherMirror8949:
		return w.mirror8949(b, at)
	case ether == wire.EtherERSPAN2 && flags&sequence != 0:
		return w.erspan2(b, at)
	}
	if ether == wire.EtherERSPAN2 {
		return w.mirrored(ERSPAN1, 0, wire.EtherBridged, b, at)
	}
	return w.payload(GRE, ether, b, at)
}

// erspan2 moves the walk through an ERSPAN header of type II. T is 1 if the switch truncated the mirrored frame:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Ver = 1|         VLAN          | COS | En|T|    Session ID     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|       Reserved        |                 Index                 |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (w *way) erspan2(b []byte, at int) error {
	switch {
	case len(b)-at < 8:
		return errERSPAN
	case b[at]>>4 != 1:
		return errERSPANVer
	}
	return w.mirrored(ERSPAN2, b[at+2], wire.EtherBridged, b, at+8)
}

// erspan3 moves the walk through an ERSPAN header of type III. T is 1 if the switch truncated the mirrored frame, O
// adds 8 octets after the header, and FT is the type of the mirrored frame:
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
func (w *way) erspan3(b []byte, at int) error {
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
	third, ether := b[at+2], uint16(wire.EtherBridged)
	at += header
	if frameType == isIP {
		version := wire.VersionField(b[at:])
		if version != wire.IPv4 && version != wire.IPv6 {
			return errVersion
		}
		ether = wire.VersionEther(version)
	}
	return w.mirrored(ERSPAN3, third, ether, b, at)
}

// mirrored moves the walk into a copy made by a mirror, which may be longer than the octets that are there: mirrors
// truncate the frames that they copy. third is the third octet of an ERSPAN header, which contains T.
func (w *way) mirrored(tunnel Tunnel, third byte, ether uint16, b []byte, at int) error {
	w.limit, w.allowTruncated = math.MaxInt, w.allowTruncated || third&0x04 != 0
	return w.payload(tunnel, ether, b, at)
}
