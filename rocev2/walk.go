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

	segmentRouting = 4 // the Routing Type (RFC 8754)
)

// maxDepth is how many IP headers may stand inside the outermost one (D12).
const maxDepth = 4

// A walk goes from one IP header to the next one inside it, and says where the headers of the
// packet stand that it has reached: offsets into the octets of the frame. An end is where a length
// field says; there may be fewer octets.
type walk struct {
	link  int    // the end of the link-layer header, VLAN tags included
	ether uint16 // the EtherType at the end of it, 0 without

	outer    int // the outermost IP header
	outerEnd int // the end of that packet, by its own length field

	ip    int // the IP header reached
	ext   int // its options or extension headers
	udp   int // the UDP header, or whatever else follows the IP headers
	end   int // the end of the IP packet, not beyond that of the packet around it
	limit int // the end of what carries the packet; math.MaxInt where nothing says
	stop  int // how far what carries the packet is there

	depth    uint8 // how many IP headers stand around this one
	version  uint8 // of the IP header, as what stands before it says
	proto    uint8 // what follows the IP headers
	overruns bool  // the length field of an IP header says more than the packet around it has
	cut      bool  // octets may be missing at the end: the capture cut the frame, or a mirror what it carries

	err error // why there is no whole UDP header; ErrNotRoCEv2 matches it
}

// noVersion is the version of an IP header that nothing announces.
const noVersion = 0xFF

// A trail is what a walk has passed.
type trail struct {
	tunnels Tunnels
	headers [maxDepth + 1]struct{ ext, end uint32 } // the extension headers of IPv6 headers
	n       uint8                                   // so many of them

	lastIP, lastStop int // ip and stop of the last packet passed; 0 where none was
}

// A course is a walk with its trail.
type course struct {
	walk
	trail
}

// from walks from the link layer of b to the UDP header of a datagram, through IP in IP alone.
func (w *walk) from(b []byte, o DecodeOptions, t *trail) {
	if w.plain(b, o) {
		return
	}
	var version uint8
	var err error
	switch {
	case o.Link == LinkEthernet: // this and the next as in linkEnd, at less cost
		w.link, version, w.ether, err = etherEnd(b, 12, 14, errFrame)
	case o.Link == LinkIP && len(b) > 0:
		w.link, version, w.ether = 0, b[0]>>4, 0
	default:
		w.link, version, w.ether, err = linkEnd(b, o.Link)
	}
	w.start(b, w.link, version, o.Cut)
	if err == nil {
		w.err = w.follow(b, t)
	} else {
		w.reach(w.link, noVersion)
		w.outerEnd, w.end, w.err = w.link, w.link, err
	}
}

// plain is from for a plain frame. False leaves the frame to the walk.
func (w *walk) plain(b []byte, o DecodeOptions) bool {
	var link, udp, end int
	switch o.Link {
	case LinkEthernet:
		link = 14
		udp, end = plain(b)
	case LinkIP:
		udp, end = plainIP(b)
	}
	if udp == 0 || end > len(b) || end < udp+8 {
		return false
	}
	w.setPlain(b, link, udp, end, o.Cut)
	return true
}

// start begins a walk at the IP header of this version at b[at:].
func (w *walk) start(b []byte, at int, version uint8, cut bool) {
	w.outer, w.ip, w.version, w.depth = at, at, version, 0
	w.limit, w.stop = math.MaxInt, len(b)
	w.overruns, w.cut = false, cut
}

// follow walks on through IP in IP to the UDP header of a datagram (D12). Nothing is said of that
// header yet: a length field that is wrong matters only where the port is a wanted one. The trail
// may be nil.
func (w *walk) follow(b []byte, t *trail) error {
	for ; ; w.depth++ {
		if w.depth > maxDepth {
			return errDepth
		}
		var err error
		if w.version == 6 {
			err = w.ipv6(b)
		} else {
			err = w.ipv4(b)
		}
		if w.depth == 0 {
			w.outerEnd = w.end
		}
		if err != nil {
			return err
		}
		inner := uint8(6)
		switch w.proto {
		case protoUDP:
			if min(w.end, w.stop)-w.udp < 8 {
				return errUDPHeader
			}
			return nil
		case protoIPv4:
			inner = 4
		case protoIPv6:
		case protoFragment:
			return ErrFragment
		default:
			return errNotUDP
		}
		if err := t.pass(b, w, true); err != nil {
			return err
		}
		w.into(b, w.end)
		w.reach(w.udp, inner)
	}
}

// into says that what follows is carried by a packet that ends at end, and returns the octets up to
// there.
func (w *walk) into(b []byte, end int) []byte {
	w.limit, w.stop = end, min(end, w.stop)
	return b[:w.stop]
}

// reach goes on to the IP header of this version at an offset.
func (w *walk) reach(at int, version uint8) { w.ip, w.ext, w.udp, w.version = at, at, at, version }

// begins says whether the IP header reached is there, at least its version.
func (w *walk) begins(b []byte) bool {
	return w.ip < w.stop && b[w.ip]>>4 == w.version && w.err != errDepth
}

// pass notes a packet that carries another one. A packet in it, as opposed to a frame, makes a
// Segment Routing header a tunnel.
func (t *trail) pass(b []byte, w *walk, packet bool) error {
	if t == nil {
		return nil
	}
	t.lastIP, t.lastStop = w.ip, w.stop
	if w.version != 6 || w.ext == w.udp {
		return nil
	}
	t.headers[t.n].ext, t.headers[t.n].end = uint32(w.ext), uint32(w.udp)
	t.n++
	if packet && hasSegments(b[w.ip+6], b[w.ext:w.udp]) {
		return t.tunnels.add(SRv6)
	}
	return nil
}

// hasSegments tells whether a Segment Routing header (RFC 8754) is among extension headers, of which
// the first is of type next.
func hasSegments(next uint8, ext []byte) bool {
	for len(ext) > 0 {
		if next == protoRouting && ext[2] == segmentRouting {
			return true
		}
		next, ext = ext[0], ext[extensionLen(ext, 0):]
	}
	return false
}

// ipv6 reads the IPv6 header at w.ip and its extension headers, in octets up to w.stop. On error ext
// and udp are around the extension headers that are whole.
func (w *walk) ipv6(b []byte) error {
	b = b[:w.stop]
	at := w.ip
	if len(b)-at < 40 {
		w.ext, w.udp, w.end = at, at, w.stop
		return errIPv6Header
	}
	ip := (*[40]byte)(b[at:])
	if ip[0]>>4 != 6 {
		w.ext, w.udp, w.end = at, at, w.stop
		return errVersion
	}
	at += 40
	next, end := ip[6], at+int(be.Uint16(ip[4:]))
	if end > w.limit {
		end, w.overruns = w.limit, true
	}
	w.ext, w.end = at, end
	for isExtension(next) {
		n := extensionLen(b[:min(end, len(b))], at)
		if n == 0 {
			w.udp = at
			return errExtension
		}
		next, at = b[at], at+n
	}
	w.proto, w.udp = next, at
	return nil
}

// ipv4 is the same for IPv4. Fragments are refused.
func (w *walk) ipv4(b []byte) error {
	b = b[:w.stop]
	at := w.ip
	w.ext, w.udp, w.end = at, at, w.stop
	there := len(b) - at
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
	end := at + total
	if end > w.limit {
		end, w.overruns = w.limit, true
	}
	w.ext, w.udp, w.proto, w.end = at+20, at+n, ip[9], end
	if be.Uint16(ip[6:])&0x3FFF != 0 { // More Fragments, or an offset
		return ErrFragment
	}
	return nil
}

// missing says that the outermost packet has fewer octets than its length field says.
func (w *walk) missing(b []byte) bool { return w.outerEnd > len(b) }

// check returns nil where the walk led to a UDP datagram to one of these ports, or to any without
// ports, and its lengths are right. With cut, octets that are missing at the end are no error.
func (w *walk) check(b []byte, cut bool, ports []uint16) error {
	if w.err != nil {
		return w.err
	}
	udp := b[w.udp : w.udp+8]
	if len(ports) > 0 && !slices.Contains(ports, be.Uint16(udp[2:])) {
		return ErrPort
	}
	length := int(be.Uint16(udp[4:]))
	switch {
	case length < 8:
		return errUDPLength
	case w.overruns, !cut && w.missing(b):
		return errIPLength
	case w.udp+length > w.end:
		return errUDPBeyondIP
	}
	return nil
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
