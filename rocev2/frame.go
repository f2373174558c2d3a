package rocev2

import (
	"errors"
	"iter"
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// A Frame is a frame or packet from a capture or a socket of package netio: its link layer, IP headers,
// tunnels, and the packet inside. Everything else in this library that reads packets works on a Frame.
//
// It has two views. Packet and Datagram find what the frame carries through IP in IP alone (D12), as the host
// that the frame is addressed to would. InnerPacket, InnerDatagram and the methods about the flow look below
// every [Tunnel], as a switch or a monitor has to. Without tunnels the two are the same. One walk serves both:
// it looks below a tunnel only when first asked to, and continues from where it had stopped. For Packet or Datagram
// after that, the headers in front of the tunnel may be read again.
//
// The zero value is a frame of no octets, ready for any number of Decode calls; nothing allocates. A Frame is not safe
// for concurrent use.
type Frame struct {
	octets  []byte // the arguments of the last Decode
	options DecodeOptions

	// Most frames are plain (see plainIn). They are not walked, and nothing but these offsets is recorded, until a
	// method needs more.
	ip, udp, end int // offsets of IP and UDP header and of the end of the IP packet; udp is 0 for other frames

	way       way   // where the walk has come to
	near, far bool  // it has ended where IP in IP alone leads, or at the innermost packet; without tunnels both are set
	broken    error // what is wrong with a tunnel; valid where far is set
}

// Decode sets f from octets as o describes them. The error says why no UDP header can be reached through IP in
// IP alone, as Packet and Datagram would do; it is nil for UDP to any port. f is set also on error, as far as
// the walk came: flow control, fragments and tunnels are Frames like others. f aliases b.
func (f *Frame) Decode(b []byte, o DecodeOptions) error {
	f.octets, f.options = b, o
	f.ip, f.udp, f.end = plainIn(b, o.Link)
	if f.udp != 0 {
		f.near, f.far = false, false
		return nil
	}
	return f.walk()
}

// Octets returns the octets of the last Decode.
func (f *Frame) Octets() []byte { return f.octets }

// Options returns the options of the last Decode.
func (f *Frame) Options() DecodeOptions { return f.options }

// walk sets the way through IP in IP alone.
func (f *Frame) walk() error {
	w, b := &f.way, f.octets
	f.near, f.far = true, false
	w.n, w.tunnels = 0, Tunnels{}
	if f.udp != 0 {
		f.plainWalk(&w.walk)
		return nil
	}
	at, version, ether, err := linkEnd(b, f.options.Link)
	w.start(b, at, version, f.options.Cut)
	w.ether = ether
	if err == nil {
		err = w.follow(b, &w.trail)
	} else {
		w.version, w.udp, w.end = noVersion, at, at
	}
	w.err = err
	return err
}

// plainWalk sets w from the offsets of a plain frame.
func (f *Frame) plainWalk(w *walk) {
	w.plain(f.octets, f.ip, f.udp, f.end, f.options.Cut)
	w.datagram(f.octets[f.udp:])
}

// plainPort returns the destination port of a plain frame.
func (f *Frame) plainPort() uint16 { return be.Uint16(f.octets[f.udp+2:]) }

// single says whether the frame is a plain one without a tunnel: then the answer to most questions needs no walk.
func (f *Frame) single() bool { return f.udp != 0 && !isTunnelPort(f.plainPort()) }

// outer returns the walk through IP in IP alone.
func (f *Frame) outer() *way {
	if !f.near {
		f.walk()
	}
	return &f.way
}

// inner returns the walk to the innermost packet.
func (f *Frame) inner() *way {
	if !f.far {
		f.descend()
	}
	return &f.way
}

// descend continues the walk below the tunnels, and sets broken. After a broken tunnel it is the walk through IP in IP
// alone.
func (f *Frame) descend() {
	w := f.outer()
	f.far, f.broken = true, nil
	if f.options.Outer || !w.carries() {
		return
	}
	ip := w.ip
	switch err := w.descend(f.octets); {
	case err != nil:
		f.broken = err
	case w.ip == ip: // no tunnel
		return
	case !w.begins(f.octets):
		if f.broken = w.err; w.ip < w.stop { // there is no IP header where one is expected
			f.broken = errVersion
		}
	default:
		f.near = false
		return
	}
	f.walk()
	f.far = true
}

// Plain returns the IP packet in a plain frame, and the UDP datagram in that, each up to the end that the IP
// header's length field gives. A plain frame is Ethernet without tags or no more than an IP packet, with IPv4
// without options or IPv6 without extension headers, not a fragment, and complete. For other frames Plain
// returns nil. It is for programs that read so many frames that setting a Packet from each would be too slow.
func (f *Frame) Plain() (ip, udp []byte) {
	if f.udp == 0 || f.udp > f.ip+40 {
		return nil, nil
	}
	return f.octets[f.ip:f.end:f.end], f.octets[f.udp:f.end:f.end]
}

// Link returns the link-layer header, VLAN tags included; it is empty for a bare IP packet.
func (f *Frame) Link() []byte {
	end := f.linkEnd()
	return f.octets[:end:end]
}

// EtherType returns the EtherType at the end of the link-layer header; 0 if the header is not complete or its
// link type has none.
func (f *Frame) EtherType() uint16 {
	switch {
	case f.udp == 0:
		return f.way.ether
	case f.ip == 0:
		return 0
	}
	return be.Uint16(f.octets[12:])
}

// LinkPayload returns what follows the link-layer header. It is for frames that are not IP, such as flow
// control.
func (f *Frame) LinkPayload() []byte {
	end := f.linkEnd()
	return f.octets[end:len(f.octets):len(f.octets)]
}

// linkEnd returns where the link-layer header ends; Decode has read that far.
func (f *Frame) linkEnd() int {
	if f.udp != 0 {
		return f.ip
	}
	return f.way.link
}

// MACs returns source and destination of an Ethernet frame; ok is false for other link types.
func (f *Frame) MACs() (src, dst [6]byte, ok bool) {
	if f.options.Link != LinkEthernet || f.linkEnd() < 14 {
		return src, dst, false
	}
	return [6]byte(f.octets[6:]), [6]byte(f.octets), true
}

// VLAN returns the VLAN and the priority (PCP) of the last VLAN tag in the link-layer header; ok is false if
// there is no tag.
func (f *Frame) VLAN() (id uint16, priority uint8, ok bool) {
	end := f.linkEnd()
	if end < f.options.Link.size()+4 {
		return 0, 0, false
	}
	tag := be.Uint16(f.octets[end-4:])
	return tag & 0xFFF, uint8(tag >> 13), true
}

// Outermost returns the outermost IP packet, as it was on the wire: up to the end that its length field gives,
// or as much of it as was captured. It is nil if there is no complete IP header, or if the lengths in an IPv4 header
// contradict each other.
func (f *Frame) Outermost() []byte {
	if f.udp != 0 {
		return f.octets[f.ip:f.end:f.end]
	}
	w := f.inner()
	if w.outerEnd == 0 {
		return nil
	}
	end := min(w.outerEnd, len(f.octets))
	return f.octets[w.outer:end:end]
}

// outermost returns the octets of the frame from the outermost IP header on, nil if there is none.
func (f *Frame) outermost() []byte {
	if f.udp != 0 {
		return f.octets[f.ip:]
	}
	w := f.inner()
	if w.ip == w.outer && !w.begins(f.octets) {
		return nil
	}
	return f.octets[w.outer:]
}

// Truncated says whether the outermost packet has fewer octets than its length field says. It need not be the
// capture that cut it: see [DecodeOptions].
func (f *Frame) Truncated() bool { return f.udp == 0 && f.inner().missing }

// IP returns the innermost IP packet, in the same way as Outermost; if its length field cannot be read, up to
// the end of the packet or frame that carries it. It is nil if there is no IP header.
func (f *Frame) IP() []byte {
	w := f.inner()
	if !w.begins(f.octets) {
		return w.last(f.octets)
	}
	end := min(w.end, w.stop)
	return f.octets[w.ip:end:end]
}

// Tunnels returns the tunnels around the innermost packet, without IP in IP.
func (f *Frame) Tunnels() Tunnels { return f.inner().tunnels }

// Mirrored says whether the innermost packet is a copy, sent here by a mirror, of a packet that passed another
// node.
func (f *Frame) Mirrored() bool { return f.Tunnels().mirrored() }

// Tunnelled says whether the innermost packet is inside another IP header.
func (f *Frame) Tunnelled() bool {
	w := f.inner()
	return w.ip != w.outer
}

// OuterSrc returns the source address of the outermost IP header: for a tunnelled packet, the tunnel's ingress.
// It needs all 20 octets of an IPv4 header or 40 of an IPv6 one, else it is the zero Addr. It does not need a right
// length field, as Outermost does.
func (f *Frame) OuterSrc() netip.Addr { src, _ := addresses(f.outermost()); return src }

// OuterDst returns the destination address of the outermost IP header. It needs what OuterSrc needs.
func (f *Frame) OuterDst() netip.Addr { _, dst := addresses(f.outermost()); return dst }

// OuterFlowLabel returns the flow label of the outermost IP header: 20 bits, and 0 for IPv4. It needs what
// OuterSrc needs, else it is 0.
func (f *Frame) OuterFlowLabel() uint32 { return flowLabel(f.outermost()) }

// OuterECN returns the ECN field of the outermost IP header. It needs what OuterSrc needs, else it is NotECT.
func (f *Frame) OuterECN() ECN { return ecnOf(f.outermost()) }

// addresses returns source and destination of an IP packet, or zero Addrs if its header is not complete.
func addresses(ip []byte) (src, dst netip.Addr) {
	switch {
	case len(ip) >= 40 && ip[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
	case len(ip) >= 20 && ip[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
	}
	return src, dst
}

func flowLabel(ip []byte) uint32 {
	if len(ip) >= 40 && ip[0]>>4 == 6 {
		return be.Uint32(ip) & 0xFFFFF
	}
	return 0
}

func ecnOf(ip []byte) ECN {
	tc, _ := trafficClass(ip)
	return ECN(tc & 3)
}

// Packet sets p from the RoCEv2 packet in the frame, found through IP in IP alone. An error that [ErrNotRoCEv2]
// matches means other traffic, other errors mean a broken RoCEv2 packet. On error p is unchanged.
func (f *Frame) Packet(p *Packet) error { return f.packet(p, false) }

// PacketCut is Packet for a frame that may be cut, whatever Decode was told: missing octets make p Truncated and
// are no error. It is for callers that check a packet for errors only after they have seen that it concerns
// them.
func (f *Frame) PacketCut(p *Packet) error { return f.packet(p, true) }

func (f *Frame) packet(p *Packet, cut bool) error {
	if f.udp != 0 {
		if ok, err := p.decodePlainIn(f.octets, f.ip, f.udp, f.end); ok {
			return err
		}
	}
	w := f.outer()
	return p.fromWalk(f.octets, &w.walk, cut || w.cut)
}

// InnerPacket is Packet below every tunnel.
func (f *Frame) InnerPacket(p *Packet) error {
	if f.single() {
		return f.Packet(p)
	}
	switch w := f.inner(); {
	case f.broken != nil:
		return f.broken
	case !f.near:
		return p.fromWalk(f.octets, &w.walk, w.cut)
	}
	return f.Packet(p)
}

// Datagram sets d from the UDP datagram in the frame, found through IP in IP alone, if it goes to one of these
// destination ports; without ports any will do. An error that [ErrNotRoCEv2] matches means that there is no
// such datagram; other errors mean that it is broken. On error d is unchanged.
func (f *Frame) Datagram(d *Datagram, ports ...uint16) error { return f.datagram(d, false, ports) }

// DatagramCut is to Datagram what PacketCut is to Packet.
func (f *Frame) DatagramCut(d *Datagram, ports ...uint16) error { return f.datagram(d, true, ports) }

func (f *Frame) datagram(d *Datagram, cut bool, ports []uint16) error {
	b := f.octets
	if f.udp != 0 {
		return d.decodePlain(b, f.ip, f.udp, f.end, ports)
	}
	w := f.outer()
	if err := w.check(cut || w.cut, ports); err != nil {
		return err
	}
	d.set(b, &w.walk)
	return nil
}

// InnerDatagram is Datagram below every tunnel.
func (f *Frame) InnerDatagram(d *Datagram, ports ...uint16) error {
	if f.single() {
		return f.datagram(d, false, ports)
	}
	switch w := f.inner(); {
	case f.broken != nil:
		return f.broken
	case !f.near:
		if err := w.check(w.cut, ports); err != nil {
			return err
		}
		d.set(f.octets, &w.walk)
		return nil
	}
	return f.datagram(d, false, ports)
}

// FlowLabel returns the flow label of the innermost IP header: 20 bits, and 0 for IPv4.
func (f *Frame) FlowLabel() uint32 { return flowLabel(f.inner().octets(f.octets)) }

// ECN returns the ECN field of the innermost IP header. Routers inside a tunnel mark the outermost header: see
// OuterECN.
func (f *Frame) ECN() ECN { return ecnOf(f.inner().octets(f.octets)) }

// ICMPv6 returns the message of an ICMPv6 packet without a tunnel, from its type on; ok is false for other
// frames.
func (f *Frame) ICMPv6() (message []byte, ok bool) {
	if f.udp != 0 {
		return nil, false
	}
	w := f.outer()
	if w.err != errNotUDP || w.proto != protoICMPv6 || w.ip != w.outer || w.version != 6 ||
		!w.cut && w.missing {
		return nil, false
	}
	end := min(w.end, w.stop)
	return f.octets[w.udp:end:end], true
}

// Fragment returns the UDP destination port if the innermost packet is the first fragment of a datagram. Later
// fragments do not contain it: ok is false for them, and for fragments of other protocols.
func (f *Frame) Fragment() (port uint16, ok bool) { return f.inner().fragment(f.octets) }

// Innermost returns the octets of the innermost packet, however malformed: from the last IP header that can be
// reached up to the end of the packet or frame that carries it, or as much as was captured. It continues after
// an IP header whose length field is wrong, but does not look into mirrored frames, whose packets are copies.
// It returns nil if there is no IP header.
//
// It is for a border, which must decide also about packets that do not parse.
func (f *Frame) Innermost() []byte {
	b := f.octets
	if f.single() {
		return b[f.ip:len(b):len(b)]
	}
	w := way{border: true}
	if f.udp != 0 { // to walk anew takes less than a copy
		f.plainWalk(&w.walk)
	} else {
		near := f.outer()
		if !near.carries() {
			return near.octets(b)
		}
		w.walk = near.walk
	}
	w.cut = true
	_ = w.descend(b) // an error does not matter here
	return w.octets(b)
}

// Extensions iterates over the IPv6 extension headers of the types 0 (Hop-by-Hop Options), 43 (Routing) and 60
// (Destination Options) of all IP headers, the outermost first: the type and the octets of each. It needs no
// UDP header and ends silently where the walk ends.
func (f *Frame) Extensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		w := f.inner()
		ip, udp := w.ip, w.udp // before yield asks for what needs another walk
		for _, p := range w.packets[:w.n] {
			if !f.yieldExtensions(yield, int(p.ip), int(p.udp)) {
				return
			}
		}
		f.yieldExtensions(yield, ip, udp)
	}
}

// yieldExtensions yields the extension headers, which end at udp, of the IP header at ip if that is IPv6. It
// says whether to continue.
func (f *Frame) yieldExtensions(yield func(uint8, []byte) bool, ip, udp int) bool {
	if b := f.octets; udp > ip+40 && b[ip]>>4 == 6 {
		for next, header := range wire.Extensions(b[ip+6], b[ip+40:udp]) {
			if !yield(next, header) {
				return false
			}
		}
	}
	return true
}

// leadsOn says whether the walk goes on behind a header whose next one is of this protocol.
func (f *Frame) leadsOn(proto uint8) bool {
	switch proto {
	case protoIPv4, protoIPv6:
		return true
	case protoGRE, protoMPLS, protoEthernet:
		return !f.options.Outer
	}
	return false
}

// SnapLength returns the snap length with which a capture would have kept the frame up to the end of a UDP header
// to one of these ports. It may take more, depending on what the missing octets contain. SnapLength returns 0 if
// the walk did not end because of missing octets, or if the octets that are there lead to something else.
func (f *Frame) SnapLength(ports ...uint16) int {
	w, b := f.inner(), f.octets
	there := len(b) - w.udp
	switch {
	case errors.Is(f.broken, wireerr.Truncated) && (w.missing || w.err == errNotIP):
		return len(b) + 8 + ethernetSize + 40 + 8 // a tunnel's headers are cut, or the frame in it
	case len(b) == 0 || f.broken != nil || !errors.Is(w.err, wireerr.Truncated):
		return 0
	case w.version == noVersion: // the link-layer header is cut
		end := f.options.Link.size()
		for end <= len(b) { // behind a whole tag is another one
			end += 4
		}
		return end + 40 + 8
	case !w.begins(b) && there > 0:
		return 0
	}
	end := w.udp // after the complete extension headers
	switch w.err {
	case errIPv4Header:
		end += 20
		if there > 0 {
			end = max(end, w.udp+4*int(b[w.udp]&0x0F))
		}
	case errIPv6Header:
		end += 40
	case errExtension:
		end += 8
		if there > 0 && b[w.udp] != protoUDP && !wire.IsExtension(b[w.udp]) && !f.leadsOn(b[w.udp]) {
			return 0
		}
		if there > 1 {
			end += 8 * int(b[w.udp+1])
		}
	case errUDPHeader:
		if there < 4 {
			break
		}
		port := be.Uint16(b[w.udp+2:])
		if !slices.Contains(ports, port) && (f.options.Outer || !isTunnelPort(port)) {
			return 0
		}
	}
	return max(end+8, len(b)+1)
}
