package rocev2

import (
	"encoding/binary"
	"math"

	"github.com/rocecn/rocecn/internal/wire"
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

// maxDepth is the most IP headers inside the outermost one (D12).
const maxDepth = 4

// A walk goes from one IP header to the next one inside it. Its fields are offsets into the octets of the frame
// that locate the headers of the packet reached last. An end is computed from a length field; fewer octets may
// be there.
type walk struct {
	link     int // end of the link-layer header, VLAN tags included
	outer    int // outermost IP header
	begin    int // outermost IP header below mirrors
	beginEnd int // end of the octets of its packet; 0 if the header is incomplete or its lengths contradict each other

	ip    int // IP header reached
	udp   int // UDP header, or the header of another protocol after the IP headers
	end   int // end of the IP packet, not after that of the packet around it
	limit int // end of the packet around it; math.MaxInt if there is none
	stop  int // end of the octets of the packet around it

	port   uint16 // UDP destination port and length, if there is a UDP header
	length uint16

	ether          uint16 // EtherType at the end of the link-layer header, or 0
	depth          uint8  // number of IP headers around this one
	version        uint8  // of the IP header, as announced by the header before it
	proto          uint8  // protocol after the IP headers
	routed         bool   // the IP header has a Segment Routing header, which a packet inside makes a tunnel
	overruns       bool   // the length field of an IP header exceeds the packet around it
	missing        bool   // the outermost packet, or that in a copy by a mirror, is shorter than its length field gives
	allowTruncated bool   // octets may be missing at the end: the capture truncated the frame, or a mirror the copy

	err error // reason why there is no complete UDP header; ErrNotRoCEv2 matches it
}

// noVersion is the version if no header announces one.
const noVersion = 0xFF

// A trail has the packets and tunnels that a walk has passed.
type trail struct {
	tunnels  Tunnels
	carriers uint64 // for each tunnel, four bits as in Tunnels: the number of packets around it
	packets  [maxDepth + 1]passed
	n        uint8 // number of packets
}

// add adds a tunnel that begins after the last passed packet.
func (t *trail) add(tunnel Tunnel) error {
	at := 4 * t.tunnels.Len()
	if err := t.tunnels.add(tunnel); err != nil {
		return err
	}
	t.carriers |= uint64(t.n) << at
	return nil
}

// A passed packet carries another one. The fields are offsets: of its IP header, of the end of its extension
// headers, and of the end of the octets that are there of the packet around it.
type passed struct{ ip, udp, stop uint32 }

// last returns the octets of the last passed packet, nil if there is none.
func (t *trail) last(b []byte) []byte {
	if t.n == 0 {
		return nil
	}
	p := &t.packets[t.n-1]
	return b[p.ip:p.stop:p.stop]
}

// firstBranch returns the offsets of IP header, UDP header and end of the IP packet in a plain frame, which is a
// complete one that [wire.PlainUDP] or [wire.ExtendedUDP] locates, in Ethernet without tags or without a link-layer
// header. For other frames, udp is 0 and the rest of the walk is needed, which would locate the same in a plain frame.
func firstBranch(b []byte, link LinkType) (ip, udp, end int) {
	switch {
	case link == LinkEthernet && len(b) >= wire.EthernetSize+2:
		ip = wire.EthernetSize
		first := be.Uint32(b[12:])
		if udp, end = wire.PlainUDP(b, wire.EthernetSize, first); udp == 0 {
			udp, end = wire.ExtendedUDP(b, wire.EthernetSize, first)
		}
	case link == LinkIP:
		first := wire.ImpliedStart(b)
		if udp, end = wire.PlainUDP(b, 0, first); udp == 0 {
			udp, end = wire.ExtendedUDP(b, 0, first)
		}
	}
	if end > len(b) || end < udp+wire.UDPSize {
		return 0, 0, 0
	}
	return ip, udp, end
}

// from walks from the link layer of b to the UDP header of a datagram, through IP in IP alone, after the first branch
// has failed. It is for callers that need only the error of a walk that fails; see Frame.walk for others.
func (w *walk) from(b []byte, o DecodeOptions) error {
	at, version, _, err := linkEnd(b, o.Link, o.Encapsulations.csigTPID())
	if err != nil {
		return err
	}
	w.start(b, at, version, o.AllowTruncated)
	return w.follow(b, nil)
}

// plain sets w as from does, except port and length, for a plain frame with these offsets.
func (w *walk) plain(b []byte, ip, udp, end int, allowTruncated bool) {
	w.start(b, ip, wire.VersionField(b[ip:]), allowTruncated)
	w.beginEnd, w.ether, w.udp, w.end, w.proto, w.err = end, 0, udp, end, wire.ProtoUDP, nil
	w.routed = udp > ip+wire.IPv6Size && b[ip+6] == wire.ProtoRouting && b[ip+42] == wire.SegmentRouting
	if ip > 0 {
		w.ether = be.Uint16(b[12:])
	}
}

// start begins a walk at the IP header of this version at b[at:].
func (w *walk) start(b []byte, at int, version uint8, allowTruncated bool) {
	w.link, w.outer, w.begin, w.ip, w.version, w.depth = at, at, at, at, version, 0
	w.limit, w.stop, w.beginEnd = math.MaxInt, len(b), 0
	w.overruns, w.missing, w.allowTruncated = false, false, allowTruncated
}

// follow continues through IP in IP to the UDP header of a datagram (D12). It does not check the length field of that
// header, because a wrong length matters only if the port is a wanted one.
func (w *walk) follow(b []byte, t *trail) error {
	for ; w.depth <= maxDepth; w.depth++ {
		if err := w.header(b); err != nil {
			return err
		}
		inner := uint8(6)
		switch w.proto {
		case wire.ProtoUDP:
			if min(w.end, w.stop)-w.udp < wire.UDPSize {
				return errUDPHeader
			}
			w.datagram(b[w.udp:])
			return nil
		case wire.ProtoIPv4:
			inner = 4
		case wire.ProtoIPv6:
		case wire.ProtoFragment:
			return ErrFragment
		default:
			return errNotUDP
		}
		if t != nil {
			t.pass(w)
			if w.routed {
				if err := t.add(SRv6); err != nil {
					return err
				}
			}
		}
		w.inside(b, w.end)
		w.reach(w.udp, inner)
	}
	return errDepth
}

// datagram sets port and length from a UDP header.
func (w *walk) datagram(udp []byte) {
	header := be.Uint64(udp)
	w.port, w.length = uint16(header>>32), uint16(header>>16)
}

// inside sets the limits for the contents of a packet that ends at end, and returns the octets up to this end.
func (w *walk) inside(b []byte, end int) []byte {
	w.limit, w.stop = end, min(end, w.stop)
	return b[:w.stop]
}

// reach moves to the IP header of this version at an offset.
func (w *walk) reach(at int, version uint8) { w.ip, w.udp, w.version = at, at, version }

// begins reports whether the first octet of the IP header reached is there and has the right version. A walk without
// an error has read it.
func (w *walk) begins(b []byte) bool {
	return w.err == nil || w.ip < w.stop && wire.VersionField(b[w.ip:]) == w.version && w.depth <= maxDepth
}

// pass adds the packet that w has reached, which carries another packet or a frame.
func (t *trail) pass(w *walk) {
	t.packets[t.n] = passed{uint32(w.ip), uint32(w.udp), uint32(w.stop)}
	t.n++
}

// carriesMirror reports whether the packet carries a frame that a mirror copied.
func (p *passed) carriesMirror(b []byte) bool {
	h, _ := wire.ReadIP(b[:p.stop], int(p.ip), wire.VersionField(b[p.ip:]))
	if h.Protocol != wire.ProtoGRE {
		return false
	}
	return isMirrorType(be.Uint16(b[p.udp+2:]))
}

// header reads the IP header at w.ip, with the extension headers of IPv6, up to w.stop, and rejects fragments of
// IPv4. On error udp is the end of the complete headers.
func (w *walk) header(b []byte) error {
	h, fault := wire.ReadIP(b[:w.stop], w.ip, w.version)
	w.udp, w.routed = h.End, h.Routed
	if fault != wire.FaultNone && fault < wire.FaultFragment {
		w.end = h.Limit
		return faults[fault]
	}
	w.proto = h.Protocol
	w.ends(h.Limit)
	if fault != wire.FaultNone {
		return faults[fault]
	}
	return nil
}

// faults has the errors of the faults of an IP header.
var faults = [...]error{
	wire.FaultIPv6Size:  errIPv6Header,
	wire.FaultIPv4Size:  errIPv4Header,
	wire.FaultVersion:   errVersion,
	wire.FaultIHL:       errIHL,
	wire.FaultTotal:     errTotal,
	wire.FaultFragment:  ErrFragment,
	wire.FaultExtension: errExtension,
}

// ends sets the end of the packet to that of its length field, unless that exceeds the packet around it.
func (w *walk) ends(end int) {
	if w.ip == w.begin {
		w.beginEnd = min(end, w.stop)
	}
	if w.limit == math.MaxInt {
		w.missing = w.missing || end > w.stop
	}
	if w.end = end; end > w.limit {
		w.end, w.overruns = w.limit, true
	}
}

// checkLength returns nil if the lengths of the UDP header that the walk led to, and of the IP headers around it,
// are right. Missing octets at the end are no error with allowTruncated, and in a RoCEv2 packet with a complete BTH: a
// network device has truncated the frame, or trimmed the packet.
func (w *walk) checkLength(b []byte, allowTruncated bool) error {
	switch {
	case w.length < wire.UDPSize:
		return errUDPLength
	case w.overruns, !allowTruncated && w.missing && !w.hasBTH():
		return errIPLength
	case w.udp+int(w.length) > w.end && !isTrimmed(b[w.udp:min(w.end, w.stop)]):
		return errUDPBeyondIP
	}
	return nil
}

// hasBTH reports whether the datagram is a RoCEv2 packet with a complete BTH.
func (w *walk) hasBTH() bool {
	return w.port == Port && min(w.end, w.stop)-w.udp >= wire.UDPSize+wire.BTHSize
}
