package rocev2

import (
	"net/netip"

	"github.com/rocecn/rocecn/internal/wire"
)

// A View reads one of two packets in a [Frame]: [Frame.Outer] returns the view of the outermost packet, [Frame.Inner]
// that of the innermost one. A View is valid until the next Decode of the frame. The slices that its methods return or
// set alias the octets of the frame. Its methods allocate nothing.
type View struct {
	frame *Frame
	inner bool

	// AllowTruncated makes Packet and Datagram accept packets with missing octets, even without AllowTruncated in
	// [DecodeOptions]: they set Truncated and return no error. It is for callers that check a packet only after they
	// know that it concerns them.
	AllowTruncated bool
}

// Outer returns the view of a host or a router that the frame is addressed to. Its IP header is the outermost one.
// Packet and Datagram search through IP in IP, and not through tunnels of other kinds (D12).
//
// If the frame comes from a mirror, the view begins below the mirror's headers: it is the view of the host that the
// copied frame was addressed to. A node that acts on packets addressed to itself must ignore such a copy, which
// [View.Mirrored] reports.
func (f *Frame) Outer() View { return View{frame: f} }

// Inner returns the view of a switch or a monitor, which needs the flow inside every [Tunnel]. Its IP header is the
// innermost one. Without tunnels the two views have the same packet and datagram.
func (f *Frame) Inner() View { return View{frame: f, inner: true} }

// Frame returns the frame of the view.
func (v View) Frame() *Frame { return v.frame }

// IsInner reports whether v is the inner view of its frame.
func (v View) IsInner() bool { return v.inner }

// walk returns the walk to the packet of the view. An error means that a tunnel around it is malformed.
func (v View) walk() (*way, error) {
	if !v.inner {
		return v.frame.outer(), nil
	}
	w := v.frame.inner()
	return w, v.frame.broken
}

// plain reports whether the frame is plain and the view does not have to look into a tunnel.
func (v View) plain() bool { return v.frame.udp != 0 && (!v.inner || v.frame.single()) }

// Packet sets p from the RoCEv2 packet of the view; p aliases the octets of the frame. If the view has other traffic,
// the error matches [ErrNotRoCEv2]; other errors mean a malformed RoCEv2 packet. On error p is unchanged.
func (v View) Packet(p *Packet) error {
	f := v.frame
	if v.plain() {
		return p.setPlain(f.octets, f.ip, f.udp, f.end)
	}
	w, err := v.walk()
	if err != nil {
		return err
	}
	return p.fromWalk(f.octets, &w.walk, v.AllowTruncated || f.options.AllowTruncated)
}

// Datagram sets d from the UDP datagram of the view, if it is sent to one of these destination ports, or to any port if
// ports is empty; d aliases the octets of the frame. If there is no such datagram, the error matches [ErrNotRoCEv2];
// other errors mean that it is malformed. On error d is unchanged.
func (v View) Datagram(d *Datagram, ports ...uint16) error {
	f := v.frame
	if v.plain() {
		return d.decodePlain(f.octets, f.ip, f.udp, f.end, ports)
	}
	w, err := v.walk()
	if err != nil {
		return err
	}
	return d.fromWalk(f.octets, &w.walk, v.AllowTruncated || f.options.AllowTruncated, ports)
}

// IP returns the outermost or the innermost IP packet, up to the end that its length field gives, or as much of it as
// was captured. It is nil if there is no complete IP header, as in a tunnel that carries something else. If the lengths
// in an IPv4 header contradict each other, it is nil in the outer view, and in the inner one it extends to the end of
// the packet or frame that carries it.
func (v View) IP() []byte {
	f := v.frame
	b := f.octets
	if v.plain() {
		return b[f.ip:f.end:f.end]
	}
	w := f.inner()
	switch {
	case !v.inner && w.beginEnd == 0:
		return nil
	case !v.inner:
		return b[w.begin:w.beginEnd:w.beginEnd]
	case !w.begins(b), w.err == errIPv4Header, w.err == errIPv6Header:
		return nil
	}
	end := min(w.end, w.stop)
	return b[w.ip:end:end]
}

// header returns the octets from the IP header of the view up to the end of the packet or frame that carries it, or nil
// if there is none. Unlike IP, it accepts a
// wrong length field.
func (v View) header() []byte {
	f := v.frame
	b := f.octets
	if v.plain() {
		return b[f.ip:]
	}
	w := f.inner()
	switch {
	case (v.inner || w.ip == w.begin) && !w.begins(b):
		return nil
	case v.inner:
		return b[w.ip:w.stop]
	}
	return b[w.begin:w.beginStop()]
}

// Src returns the source address of the IP header. In the outer view of a tunnelled packet this is the tunnel's
// ingress. Src returns the zero Addr unless all 20 octets of the IPv4 header or 40 of the IPv6 header are there.
func (v View) Src() netip.Addr { src, _ := wire.Addresses(v.header()); return src }

// Dst returns the destination address of the IP header, or the zero Addr as Src does. In an SRv6 packet this is the
// next segment; [Frame.FiveTuple] returns the final destination.
func (v View) Dst() netip.Addr { _, dst := wire.Addresses(v.header()); return dst }

// FlowLabel returns the flow label of the IP header: 20 bits, and 0 for IPv4 or an incomplete header.
func (v View) FlowLabel() uint32 {
	if ip := v.header(); wire.Version(ip) == wire.IPv6 {
		return wire.FlowLabel(ip)
	}
	return 0
}

// ECN returns the ECN field of the IP header, and NotECT for an incomplete header. Routers inside a tunnel mark the
// outermost header.
func (v View) ECN() ECN {
	if ip := v.header(); wire.Version(ip) != 0 {
		return ECN(wire.TrafficClass(ip) & 3)
	}
	return NotECT
}

// EthernetHeader returns the Ethernet header, with its VLAN tags, before the packet of the view: the header of the
// frame itself, or that of the Ethernet frame in a tunnel or a mirror. It is nil unless the IP header of the view
// follows an Ethernet header, directly or after MPLS labels.
func (v View) EthernetHeader() []byte {
	f := v.frame
	if v.plain() {
		return headerOrNil(f.octets, 0, f.ip)
	}
	w := f.inner()
	switch {
	case !v.inner:
		return headerOrNil(f.octets, w.outerEthernet, w.outerEthernetEnd)
	case w.n > 0 && w.ethernet < int(w.packets[w.n-1].udp): // of a frame around that packet
		return nil
	}
	return headerOrNil(f.octets, w.ethernet, w.ethernetEnd)
}

func headerOrNil(b []byte, at, end int) []byte {
	if at == end {
		return nil
	}
	return b[at:end:end]
}

// Mirrored reports whether the packet of the view is a copy, sent by a mirror, of a packet that passed another node.
func (v View) Mirrored() bool {
	switch f := v.frame; {
	case v.plain():
		return false
	case v.inner:
		return f.inner().tunnels.mirrored()
	default:
		return f.outer().mirror > 0
	}
}

// SetECN sets the ECN field of the IP header in place, and returns its old value. It updates the IPv4 header checksum
// incrementally, so that a correct checksum stays correct (RFC 1624); the ICRC does not cover the field. If ecn is over
// 3 or the IP header is incomplete, it returns an error and changes nothing.
//
// A router marks the outer view of ECN-capable packets only: it must not set CE in a header that is NotECT (RFC 3168
// section 5).
func (v View) SetECN(ecn ECN) (was ECN, err error) {
	ip := v.header()
	switch {
	case ecn > CE:
		return 0, errECNRange
	case wire.Version(ip) == 0:
		return 0, errNoHeader
	}
	tc := wire.TrafficClass(ip)
	wire.SetTrafficClass(ip, tc&^3|uint8(ecn))
	return ECN(tc & 3), nil
}
