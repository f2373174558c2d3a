package rocev2

import (
	"iter"
	"net/netip"

	"github.com/rocecn/rocecn/bth"
)

// A Frame is what a capture, a raw socket or a UDP socket gives, walked once: the link layer, the
// IP headers, the tunnels, and the packet inside. Everything else in this library that reads
// packets works on a Frame.
//
// It has two views. Packet and Datagram find what the frame carries through IP in IP alone (D12):
// what a host that the frame is addressed to would take for its own. InnerPacket and InnerDatagram,
// and what is said of a flow, look below every [Tunnel]: what a switch or a monitor wants to know.
// Without tunnels the two are the same. The frame is walked once for both: what is below a tunnel
// is looked for when it is first asked for, from where the walk had stopped.
//
// The zero value is ready for any number of Decode calls; nothing allocates. A Frame is not safe for concurrent use.
type Frame struct {
	// Octets and Options are those of Decode. Where the Frame is set from a socket they are zero.
	Octets  []byte
	Options DecodeOptions

	link  int    // the end of the link-layer header, VLAN tags included; 0 where it is not whole
	ether uint16 // the EtherType at the end of it, 0 without
	near  walk   // through IP in IP alone
	far   walk   // below the tunnels; valid where below is set

	descended bool  // far, below and broken are set
	below     bool  // there is a packet in a tunnel other than IP in IP
	broken    error // what is wrong with a tunnel

	socket   uint8          // the protocol of the socket that the frame came from, 0 for a frame out of octets
	src, dst netip.AddrPort // of the socket
	data     []byte         // of the socket
}

// Decode sets f from the octets that o describes. The error says why they do not lead to a UDP
// header through IP in IP alone, as Packet and Datagram would find it: nil for UDP to any port. f
// is set all the same, as far as the walk came: a frame of flow control, a fragment or a tunnel is
// a Frame like others. f aliases b.
func (f *Frame) Decode(b []byte, o DecodeOptions) error {
	f.Octets, f.Options = b, o
	f.descended, f.below, f.broken = false, false, nil
	f.socket = 0
	w := &f.near
	at, version, ether, err := linkEnd(b, o.Link)
	f.link, f.ether = at, ether
	w.start(b, at, version, o.Cut)
	if err == nil {
		err = w.follow(b)
	}
	w.err = err
	return err
}

// SetUDP sets f from what a UDP socket gives: the ends of the datagram, and its data, which f
// aliases. IPv4-mapped addresses become IPv4 ones. The kernel has verified the UDP checksum, which
// Datagram.VerifyChecksum goes by. There are no octets of IP headers, so that no ICRC can be
// verified.
func (f *Frame) SetUDP(src, dst netip.AddrPort, data []byte) {
	f.fromSocket(protoUDP, src, dst, data)
}

// SetICMPv6 sets f from what a raw socket for ICMPv6 gives: the addresses of the packet, and the
// message from its type on, whose checksum the kernel has verified. f aliases message.
func (f *Frame) SetICMPv6(src, dst netip.Addr, message []byte) {
	f.fromSocket(protoICMPv6, netip.AddrPortFrom(src, 0), netip.AddrPortFrom(dst, 0), message)
}

func (f *Frame) fromSocket(protocol uint8, src, dst netip.AddrPort, data []byte) {
	*f = Frame{
		socket: protocol, data: data, descended: true,
		src: netip.AddrPortFrom(src.Addr().Unmap().WithZone(""), src.Port()),
		dst: netip.AddrPortFrom(dst.Addr().Unmap().WithZone(""), dst.Port()),
	}
	if protocol != protoUDP {
		f.near.err = errNotUDP
	}
}

// inner returns the walk to the innermost packet.
func (f *Frame) inner() *walk {
	if !f.descended {
		f.descend()
	}
	if f.below {
		return &f.far
	}
	return &f.near
}

// descend looks for a packet in a tunnel.
func (f *Frame) descend() {
	f.descended = true
	if f.near.err == nil && !isTunnelPort(be.Uint16(f.Octets[f.near.udp+2:])) {
		return
	}
	f.far = f.near
	w := &f.far
	switch err := f.walkTunnels(w, way{}); {
	case err != nil:
		f.broken = err
	case w.ip == f.near.ip && w.begunStop == f.near.begunStop: // no tunnel
	case w.begun != w.ip || w.begunStop == 0:
		f.broken = w.err // no IP header begins where one is due
	default:
		f.below = true
	}
}

// walkTunnels goes on from where a copy of f.near has ended.
func (f *Frame) walkTunnels(w *walk, how way) error {
	if w.err == errNotIP && isMPLS(f.ether) {
		at, version, err := w.labels(f.Octets, f.link)
		if err != nil {
			return err
		}
		w.outer, w.ip, w.version = at, at, version
		w.err = w.follow(f.Octets)
	}
	return w.descend(f.Octets, how)
}

func isTunnelPort(port uint16) bool {
	return port == portVXLAN || port == portGeneve || port == portMPLS
}

// Link returns the link-layer header, VLAN tags included; it is empty for a bare IP packet.
func (f *Frame) Link() []byte { return f.Octets[:f.link:f.link] }

// EtherType returns the EtherType at the end of the link-layer header, 0 where the header is not whole or has none.
func (f *Frame) EtherType() uint16 { return f.ether }

// LinkPayload returns what follows the link-layer header: the way to frames that are not IP, such
// as those of flow control.
func (f *Frame) LinkPayload() []byte { return f.Octets[f.link:len(f.Octets):len(f.Octets)] }

// MACs returns source and destination of an Ethernet frame; ok is false for other link types.
func (f *Frame) MACs() (src, dst [6]byte, ok bool) {
	if f.Options.Link != LinkEthernet || f.link < 14 {
		return src, dst, false
	}
	return [6]byte(f.Octets[6:]), [6]byte(f.Octets[:6]), true
}

// VLAN returns VLAN and priority (PCP) of the last VLAN tag of the link-layer header; ok is false without any.
func (f *Frame) VLAN() (id uint16, priority uint8, ok bool) {
	untagged := 0
	switch f.Options.Link {
	case LinkEthernet:
		untagged = 14
	case LinkSLL:
		untagged = 16
	case LinkSLL2:
		untagged = 20
	default:
		return 0, 0, false
	}
	if f.link < untagged+4 {
		return 0, 0, false
	}
	tag := be.Uint16(f.Octets[f.link-4:])
	return tag & 0xFFF, uint8(tag >> 13), true
}

// Outermost returns the outermost IP packet, as the node saw it: up to the end that its length
// field gives or as far as there are octets. It is nil where there is no whole IP header.
func (f *Frame) Outermost() []byte {
	w := f.inner()
	if w.begunStop == 0 {
		return nil
	}
	ip := f.Octets[w.outer:]
	n := 0
	switch {
	case ip[0]>>4 == 4 && len(ip) >= 20:
		n = int(be.Uint16(ip[2:]))
	case ip[0]>>4 == 6 && len(ip) >= 40:
		n = 40 + int(be.Uint16(ip[4:]))
	}
	if n < 20 {
		return nil
	}
	n = min(n, len(ip))
	return ip[:n:n]
}

// Cut says whether the outermost packet has fewer octets than its length field says.
func (f *Frame) Cut() bool { return f.inner().missing(f.Octets) }

// IP returns the innermost packet, as Outermost does the outermost one: where its own length field
// cannot be read, up to the end of what carries it. It is nil where no IP header begins.
func (f *Frame) IP() []byte {
	w := f.inner()
	if w.begunStop == 0 {
		return nil
	}
	end := min(w.end, w.stop)
	if w.begun != w.ip { // no header begins behind that one
		return f.Octets[w.begun:w.begunStop:w.begunStop]
	}
	return f.Octets[w.ip:end:end]
}

// Tunnels returns the tunnels that the innermost packet came in, besides IP in IP.
func (f *Frame) Tunnels() Tunnels { return f.inner().tunnels }

// Mirrored says whether the innermost packet is a copy of one that was elsewhere, sent here by a mirror.
func (f *Frame) Mirrored() bool { return f.inner().tunnels.Mirrored() }

// Tunnelled says whether the innermost packet stands inside another IP header.
func (f *Frame) Tunnelled() bool { w := f.inner(); return w.ip != w.outer }

// Packet sets p from the RoCEv2 packet in the frame, found through IP in IP alone. An error that
// [ErrNotRoCEv2] matches means other traffic, other errors are those of a broken RoCEv2 packet. On
// error p is unchanged.
func (f *Frame) Packet(p *Packet) error { return f.packet(p, &f.near, f.Options.Cut) }

// PacketCut is Packet for a frame that is taken as it is, whether the capture cut it or not: octets
// that are missing make p Truncated and are no error. It is for those who look at what is wrong
// with a packet only after they have seen that the packet concerns them.
func (f *Frame) PacketCut(p *Packet) error { return f.packet(p, &f.near, true) }

// InnerPacket is Packet below every tunnel.
func (f *Frame) InnerPacket(p *Packet) error {
	w := f.inner()
	if f.broken != nil {
		return f.broken
	}
	return f.packet(p, w, w.cut)
}

// Datagram sets d from the UDP datagram in the frame, found through IP in IP alone, if it goes to
// one of these destination ports; without any, every port will do. An error that [ErrNotRoCEv2]
// matches means that there is none; other errors are those of a broken one. On error d is
// unchanged.
func (f *Frame) Datagram(d *Datagram, ports ...uint16) error {
	return f.datagram(d, &f.near, f.Options.Cut, ports)
}

// DatagramCut is Datagram, as PacketCut is Packet.
func (f *Frame) DatagramCut(d *Datagram, ports ...uint16) error {
	return f.datagram(d, &f.near, true, ports)
}

// InnerDatagram is Datagram below every tunnel.
func (f *Frame) InnerDatagram(d *Datagram, ports ...uint16) error {
	w := f.inner()
	if f.broken != nil {
		return f.broken
	}
	return f.datagram(d, w, w.cut, ports)
}

func (f *Frame) datagram(d *Datagram, w *walk, cut bool, ports []uint16) error {
	if f.socket == protoUDP {
		return d.fromSocket(f, ports)
	}
	if err := w.check(f.Octets, cut, ports); err != nil {
		return err
	}
	d.set(f.Octets, f.link, w)
	return nil
}

func (f *Frame) packet(p *Packet, w *walk, cut bool) error {
	if f.socket == protoUDP {
		var d Datagram
		if err := d.fromSocket(f, ports4791); err != nil {
			return err
		}
		return p.DecodeDatagram(&d)
	}
	return p.fromWalk(f.Octets, f.link, w, cut)
}

// FiveTuple returns the flow of the innermost packet. Where a type 4 Routing header stands in that
// packet itself (SRv6 without encapsulation) and its Segments Left is not 0, Dst is the final
// destination, Segment List[0]: the address that the flow's sender and receiver know, and the one
// that its checksum and ICRC are computed with.
//
// A tunnel that carries no IP is an error: the tuple of the tunnel itself would name the wrong
// sender. So are fragments, the first one too, which has ports, as the others of its flow have
// none. In any other protocol than TCP and UDP the flow has no ports.
func (f *Frame) FiveTuple() (t FiveTuple, err error) {
	if f.socket != 0 {
		return FiveTuple{f.src.Addr(), f.dst.Addr(), f.socket, f.src.Port(), f.dst.Port()}, nil
	}
	w := f.inner()
	b := f.Octets
	switch {
	case f.broken != nil:
		return t, f.broken
	case w.err == nil:
		if err := w.check(b, w.cut, nil); err != nil {
			return t, err
		}
	case w.err != errNotUDP && w.err != errUDPHeader:
		return t, w.err
	case w.overruns, !w.cut && w.missing(b):
		return t, errIPLength
	case w.err != errNotUDP:
		return t, w.err
	}
	b = b[:min(w.end, w.stop)]
	t.Protocol = w.proto
	if t.Protocol == protoTCP && len(b)-w.udp < 4 {
		return t, errTCPHeader
	}
	if t.Protocol == protoTCP || t.Protocol == protoUDP {
		t.SrcPort, t.DstPort = be.Uint16(b[w.udp:]), be.Uint16(b[w.udp+2:])
	}
	if ip := b[w.ip:]; w.version == 6 {
		t.Src = netip.AddrFrom16([16]byte(ip[8:24]))
		t.Dst = netip.AddrFrom16([16]byte(finalDestination(ip, w.udp-w.ip)))
	} else {
		t.Src = netip.AddrFrom4([4]byte(ip[12:16]))
		t.Dst = netip.AddrFrom4([4]byte(ip[16:20]))
	}
	return t, nil
}

// FlowLabel returns the flow label of the innermost IP header: 20 bits, and 0 for IPv4.
func (f *Frame) FlowLabel() uint32 {
	if ip := f.IP(); len(ip) >= 40 && ip[0]>>4 == 6 {
		return be.Uint32(ip) & 0xFFFFF
	}
	return 0
}

// ICMPv6 returns the message, from its type on, where the frame is an ICMPv6 packet in no tunnel;
// ok is false for others.
func (f *Frame) ICMPv6() (message []byte, ok bool) {
	w := &f.near
	switch {
	case f.socket != 0:
		return f.data, f.socket == protoICMPv6
	case w.err != errNotUDP || w.proto != protoICMPv6 || w.ip != w.outer || w.version != 6 || !w.cut && w.missing(f.Octets):
		return nil, false
	}
	end := min(w.end, w.stop)
	return f.Octets[w.udp:end:end], true
}

// Fragment returns the UDP destination port that the first fragment of a datagram shows, where the
// innermost packet is a fragment. The fragments behind it show none: ok is false for them, and for
// fragments of something else.
func (f *Frame) Fragment() (port uint16, ok bool) { return f.inner().fragment(f.Octets) }

// Innermost returns the octets of the innermost packet, whatever is wrong with it: from the
// innermost IP header that can be reached up to the end of what carries it, or as far as there are
// octets. It goes on behind an IP header whose length field is wrong, but does not look into
// mirrored frames, as their packets are copies. It returns nil where no IP header begins.
//
// It is for those who must decide about a packet that does not parse, as at a border.
func (f *Frame) Innermost() []byte {
	if f.socket != 0 {
		return nil
	}
	w := f.near
	w.cut = true
	f.walkTunnels(&w, way{tolerant: true, noMirrors: true})
	if w.begunStop == 0 {
		return nil
	}
	return f.Octets[w.begun:w.begunStop:w.begunStop]
}

// Extensions iterates over the IPv6 extension headers of the types 0 (Hop-by-Hop Options), 43
// (Routing) and 60 (Destination Options) on the way to the innermost packet and of that packet, the
// outermost first: the type and the octets of each. It needs no UDP, looks at no port and ends
// silently where the walk ends.
func (f *Frame) Extensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		w := f.inner()
		for _, h := range w.headers.list[:w.headers.n] {
			if !yieldChain(yield, f.Octets[h.ext-34], f.Octets[h.ext:h.end]) {
				return
			}
		}
	}
}

// MayAnswer is the rule of [MayAnswer] for messages about the flow of the innermost packet, of any
// protocol, which go to another node than the flow's source, so that a tunnel does not matter: of
// RoCEv2 it refuses notifications and acknowledgements.
func (f *Frame) MayAnswer() error {
	var d Datagram
	if f.InnerDatagram(&d, Port) != nil || len(d.Data) == 0 {
		return nil // other traffic, or the capture does not show it
	}
	return answersOpcode(bth.Opcode(d.Data[0]))
}
