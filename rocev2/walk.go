package rocev2

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/rocecn/rocecn/internal/wire"
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

	protoIPv4     = 4
	protoUDP      = 17
	protoIPv6     = 41
	protoFragment = wire.ProtoFragment
	protoDestOpts = wire.ProtoDestinationOptions
	protoHopByHop = wire.ProtoHopByHop

	// Link-layer headers without tags.
	ethernetSize = 14
	sllSize      = 16
	sll2Size     = 20
	loopSize     = 4
)

// maxDepth is the most IP headers inside the outermost one (D12).
const maxDepth = 4

// A walk goes from one IP header to the next one inside it. Its fields are offsets into the octets of the frame
// that locate the headers of the packet reached last. An end is computed from a length field; fewer octets may
// be there.
type walk struct {
	link     int // the end of the link-layer header, VLAN tags included
	outer    int // the outermost IP header
	outerEnd int // the end of its packet; 0 if the header is not complete, or its lengths contradict each other

	ip    int // the IP header reached
	udp   int // the UDP header, or what else follows the IP headers
	end   int // the end of the IP packet, not beyond that of the packet around it
	limit int // the end of the packet around it; math.MaxInt if there is none
	stop  int // the end of the octets that are there of the packet around it

	port   uint16 // UDP destination port and length, where there is a UDP header
	length uint16

	ether    uint16 // the EtherType at the end of the link-layer header, 0 without
	depth    uint8  // how many IP headers are around this one
	version  uint8  // of the IP header, as announced by the header before it
	proto    uint8  // what follows the IP headers
	routed   bool   // the IP header has a Segment Routing header, which a packet inside makes a tunnel
	overruns bool   // the length field of an IP header exceeds the packet around it
	missing  bool   // the outermost packet has fewer octets than its length field says
	cut      bool   // octets may be missing at the end: the capture cut the frame, or a mirror what it carries

	err error // why there is no complete UDP header; ErrNotRoCEv2 matches it
}

// noVersion is the version if no header announces one.
const noVersion = 0xFF

// A trail has the packets and tunnels that a walk has passed.
type trail struct {
	tunnels Tunnels
	packets [maxDepth + 1]passed
	n       uint8 // number of packets
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

// from walks from the link layer of b to the UDP header of a datagram, through IP in IP alone. It is for those
// who need no more of a walk that fails than the error; see Frame.walk for others. Plain frames need no walk.
func (w *walk) from(b []byte, o DecodeOptions) error {
	at, version, _, err := linkEnd(b, o.Link)
	if err != nil {
		return err
	}
	w.start(b, at, version, o.Cut)
	return w.follow(b, nil)
}

// plain sets w as from would, but for port and length, for a frame that Frame.Decode found plain, with these offsets.
func (w *walk) plain(b []byte, ip, udp, end int, cut bool) {
	w.start(b, ip, b[ip]>>4, cut)
	w.outerEnd, w.ether, w.udp, w.end, w.proto, w.err = end, 0, udp, end, protoUDP, nil
	w.routed = udp > ip+40 && b[ip+6] == wire.ProtoRouting && b[ip+42] == wire.SegmentRouting
	if ip > 0 {
		w.ether = be.Uint16(b[12:])
	}
}

// start begins a walk at the IP header of this version at b[at:].
func (w *walk) start(b []byte, at int, version uint8, cut bool) {
	w.link, w.outer, w.ip, w.version, w.depth = at, at, at, version, 0
	w.limit, w.stop, w.outerEnd = math.MaxInt, len(b), 0
	w.overruns, w.missing, w.cut = false, false, cut
}

// follow continues through IP in IP to the UDP header of a datagram (D12). It does not check that header yet: a
// wrong length field matters only if the port is a wanted one.
func (w *walk) follow(b []byte, t *trail) error {
	for ; w.depth <= maxDepth; w.depth++ {
		if err := w.header(b); err != nil {
			return err
		}
		inner := uint8(6)
		switch w.proto {
		case protoUDP:
			if min(w.end, w.stop)-w.udp < 8 {
				return errUDPHeader
			}
			w.datagram(b[w.udp:])
			return nil
		case protoIPv4:
			inner = 4
		case protoIPv6:
		case protoFragment:
			return ErrFragment
		default:
			return errNotUDP
		}
		if t != nil {
			t.pass(w)
			if w.routed {
				if err := t.tunnels.add(SRv6); err != nil {
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

// inside sets the limits of a packet that ends at end for what it carries, and returns the octets up to there.
func (w *walk) inside(b []byte, end int) []byte {
	w.limit, w.stop = end, min(end, w.stop)
	return b[:w.stop]
}

// reach moves to the IP header of this version at an offset.
func (w *walk) reach(at int, version uint8) { w.ip, w.udp, w.version = at, at, version }

// begins says whether there is at least the first octet of the IP header reached, with the right version. A walk
// without an error has read it.
func (w *walk) begins(b []byte) bool {
	return w.err == nil || w.ip < w.stop && b[w.ip]>>4 == w.version && w.depth <= maxDepth
}

// pass adds the packet that w has reached, which carries another packet or a frame.
func (t *trail) pass(w *walk) {
	t.packets[t.n] = passed{uint32(w.ip), uint32(w.udp), uint32(w.stop)}
	t.n++
}

// header reads the IP header at w.ip, with the extension headers of IPv6, up to w.stop, and refuses fragments of
// IPv4. On error udp is the end of the complete headers.
func (w *walk) header(b []byte) error {
	b = b[:w.stop]
	at, there := w.ip, len(b)-w.ip
	if w.version == 6 && there >= 40 && b[at]>>4 == 6 {
		ip := (*[40]byte)(b[at:])
		w.ends(at + 40 + int(be.Uint16(ip[4:])))
		if w.proto, w.udp, w.routed = ip[6], at+40, false; w.proto == protoUDP {
			return nil
		}
		var whole bool
		w.proto, w.udp, w.routed, whole = wire.SkipExtensions(b[:min(w.end, len(b))], at+40, ip[6])
		if !whole {
			return errExtension
		}
		return nil
	}
	w.udp, w.end, w.routed = at, len(b), false
	if w.version == 6 {
		if there < 40 {
			return errIPv6Header
		}
		return errVersion
	}
	if there < 20 {
		return errIPv4Header
	}
	ip := (*[20]byte)(b[at:])
	n, total := int(ip[0]&0x0F)*4, int(be.Uint16(ip[2:]))
	switch {
	case ip[0]>>4 != 4:
		return errVersion
	case n < 20:
		return errIHL
	case there < n:
		return errIPv4Header
	case total < n:
		return errTotal
	}
	w.udp, w.proto = at+n, ip[9]
	w.ends(at + total)
	if be.Uint16(ip[6:])&0x3FFF != 0 { // More Fragments, or an offset
		return ErrFragment
	}
	return nil
}

// ends sets the end of the packet to that of its length field, unless that exceeds the packet around it.
func (w *walk) ends(end int) {
	if w.depth == 0 {
		w.outerEnd, w.missing = end, end > w.stop
	}
	if w.end = end; end > w.limit {
		w.end, w.overruns = w.limit, true
	}
}

// check returns nil if the walk led to a UDP datagram to one of these ports (any port if there are none) and
// its lengths are right. With cut, missing octets at the end are no error.
func (w *walk) check(cut bool, ports []uint16) error {
	switch {
	case w.err != nil:
		return w.err
	case len(ports) > 0 && !slices.Contains(ports, w.port):
		return ErrPort
	}
	return w.checkLength(cut)
}

// checkLength returns nil if the lengths of the UDP header that the walk led to, and of the IP headers around it,
// are right.
func (w *walk) checkLength(cut bool) error {
	switch {
	case w.length < 8:
		return errUDPLength
	case w.overruns, !cut && w.missing:
		return errIPLength
	case w.udp+int(w.length) > w.end:
		return errUDPBeyondIP
	}
	return nil
}
