package rocev2

import (
	"errors"
	"iter"
	"slices"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// A Frame is an Ethernet frame or IP packet, from a capture or a socket of package netio: its link-layer header, IP
// headers, tunnels, and the packet inside. Everything else in this library that reads packets works on a Frame.
//
// It has two views, [Frame.Outer] and [Frame.Inner]. One walk serves both. It enters a tunnel only when a method needs
// the packet inside, and then continues from the point where it stopped. If the outer view is used again after that,
// the headers before the tunnel may be read again.
//
// The zero value is a frame without octets, ready for any number of Decode calls. Decode and the views allocate
// nothing. A Frame is not safe for concurrent use.
type Frame struct {
	octets  []byte // the arguments of the last Decode
	options DecodeOptions

	// Most frames are plain (see firstBranch). They are not walked, and nothing but these offsets is recorded, until a
	// method needs more.
	ip, udp, end int // offsets of IP and UDP header and of the end of the IP packet; udp is 0 for other frames

	way       way   // state of the walk
	near, far bool  // it has ended at the packet of the outer view, or of the inner one; both are set without tunnels
	broken    error // error of a malformed tunnel; valid if far is set
}

// Decode sets f from the octets b, which o describes. It accepts all octets: flow control, fragments and tunnels are
// Frames like others. [View.Packet] and [View.Datagram] return the reason why there is no packet. f aliases b.
func (f *Frame) Decode(b []byte, o DecodeOptions) {
	f.octets, f.options = b, o
	f.near, f.far = false, false
	f.ip, f.udp, f.end = firstBranch(b, o.Link)
}

// Octets returns the octets of the last Decode.
func (f *Frame) Octets() []byte { return f.octets }

// Options returns the options of the last Decode.
func (f *Frame) Options() DecodeOptions { return f.options }

// walk walks to the packet of the outer view: through mirrors, then through IP in IP only.
func (f *Frame) walk() {
	w, b := &f.way, f.octets
	f.near, f.far = true, false
	w.n, w.tunnels, w.carriers, w.mirror = 0, Tunnels{}, 0, 0
	w.encapsulations = f.options.Encapsulations
	if f.udp != 0 {
		f.plainWalk(&w.walk)
	} else {
		at, version, ether, err := linkEnd(b, f.options.Link, f.options.Encapsulations.csigTPID())
		w.start(b, at, version, f.options.AllowTruncated)
		w.ether = ether
		if err == nil {
			err = w.follow(b, &w.trail)
		} else {
			w.version, w.udp, w.end = noVersion, at, at
		}
		w.err = err
	}
	end := 0
	if f.options.Link == LinkEthernet {
		end = w.link
	}
	w.ethernet, w.ethernetEnd, w.outerEthernet, w.outerEthernetEnd = 0, end, 0, end
	if w.proto == wire.ProtoGRE && !f.options.Outer && w.err == errNotUDP { // errors compare slowly
		w.descendMirrors(b)
	}
}

// plainWalk sets w from the offsets of a plain frame.
func (f *Frame) plainWalk(w *walk) {
	w.plain(f.octets, f.ip, f.udp, f.end, f.options.AllowTruncated)
	w.datagram(f.octets[f.udp:])
}

// single reports whether the frame is a plain one without a tunnel. Most methods need no walk for such a frame.
func (f *Frame) single() bool {
	return f.udp != 0 && !f.options.Encapsulations.isTunnelPort(wire.DstPort(f.octets[f.udp:]))
}

// outer returns the walk to the packet of the outer view.
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

// descend continues the walk through the tunnels to the innermost packet, and sets broken. If a tunnel is malformed, it
// repeats the walk of the outer view.
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

// Plain returns the IP packet in a plain frame and the UDP datagram in that packet, each up to the end that the length
// field of the IP header gives. They alias the octets of the frame. A plain frame is a complete UDP packet over IPv4
// without options or IPv6 without extension headers, not a fragment, either in Ethernet without tags or without a
// link-layer header. For other frames Plain returns nil. It is for programs that read so many frames that setting a
// Packet from each would be too slow.
func (f *Frame) Plain() (ip, udp []byte) {
	if f.udp == 0 || f.udp > f.ip+wire.IPv6Size {
		return nil, nil
	}
	return f.octets[f.ip:f.end:f.end], f.octets[f.udp:f.end:f.end]
}

// Link returns the link-layer header, VLAN tags included; it is empty for a bare IP packet.
func (f *Frame) Link() []byte {
	end := f.linkEnd()
	return f.octets[:end:end]
}

// EtherType returns the EtherType at the end of the link-layer header, or 0 if the header is incomplete or its link
// type has none.
func (f *Frame) EtherType() uint16 {
	switch {
	case f.udp == 0:
		return f.outer().ether
	case f.ip == 0:
		return 0
	}
	return be.Uint16(f.octets[12:])
}

// LinkPayload returns the octets after the link-layer header, Ethernet padding included. It is for frames that are not
// IP, such as flow control.
func (f *Frame) LinkPayload() []byte {
	end := f.linkEnd()
	return f.octets[end:len(f.octets):len(f.octets)]
}

// linkEnd returns the end of the link-layer header.
func (f *Frame) linkEnd() int {
	if f.udp != 0 {
		return f.ip
	}
	return f.outer().link
}

// MACs returns the source and destination addresses of an Ethernet frame; ok is false for other link types, and if the
// Ethernet header is incomplete.
func (f *Frame) MACs() (src, dst [6]byte, ok bool) {
	if f.options.Link != LinkEthernet || f.linkEnd() < 14 {
		return src, dst, false
	}
	return [6]byte(f.octets[6:]), [6]byte(f.octets), true
}

// VLAN returns the VLAN identifier, 0–4095, and the priority (PCP), 0–7, of the last VLAN tag in the link-layer header;
// ok is false if there is no tag. Tags of other kinds, CSIG and timestamps, do not count.
func (f *Frame) VLAN() (id uint16, priority uint8, ok bool) {
	at, end := f.options.Link.etherType(), f.linkEnd()
	size := f.options.Link.size()
	if at < 0 || end <= size {
		return 0, 0, false
	}
	b, csig := f.octets, f.options.Encapsulations.csigTPID()
	for size < end {
		n := wire.TagSize
		switch ether := be.Uint16(b[at:]); {
		case ether == csig:
		case ether == wire.EtherTimestamp:
			n = wire.TimestampSize(b[size:])
		default:
			tag := be.Uint16(b[size:])
			id, priority, ok = tag&0xFFF, uint8(tag>>13), true
		}
		size += n
		at = size - 2
	}
	return id, priority, ok
}

// Mirror returns the outermost IP packet of a frame from a mirror. This packet carries the copied frame. It ends at the
// end that its length field gives, or earlier if the capture truncated it. Mirror returns nil for other frames.
func (f *Frame) Mirror() []byte {
	if f.udp != 0 {
		return nil
	}
	w := f.outer()
	if w.mirror == 0 {
		return nil
	}
	return f.octets[w.outer:w.mirrorEnd:w.mirrorEnd]
}

// Truncated reports whether the outermost packet has fewer octets than its length field gives. The capture need not be
// the reason: see [DecodeOptions].
func (f *Frame) Truncated() bool {
	if f.udp != 0 {
		return false
	}
	w := f.inner() // labels may be before the outermost packet
	ip := f.octets[w.outer:]
	return w.version != noVersion && wire.Version(ip) != 0 && wire.Length(ip) > len(ip)
}

// Tunnels returns the tunnels around the innermost packet, without IP in IP.
func (f *Frame) Tunnels() Tunnels {
	if f.single() {
		return Tunnels{}
	}
	return f.inner().tunnels
}

// OuterHeaders yields each tunnel around the innermost packet, the outermost first, with the IP packet that carries it:
// from its IP header up to the end of the octets that are there. For MPLS labels directly after the link-layer
// header the packet is nil.
func (f *Frame) OuterHeaders() iter.Seq2[Tunnel, []byte] {
	return func(yield func(Tunnel, []byte) bool) {
		if f.single() {
			return
		}
		w := f.inner()
		b, t := f.octets, w.trail // a copy, because yield may call methods that change the walk
		next, list := 0, t.tunnels.list
		for carrier := range t.n + 1 {
			var ip []byte
			if carrier > 0 {
				p := &t.packets[carrier-1]
				ip = b[p.ip:p.stop:p.stop]
			}
			inIP := carrier > 0 // no tunnel in the list
			for ; list>>next&15 != 0 && uint8(t.carriers>>next&15) == carrier; next += 4 {
				if inIP = false; !yield(Tunnel(list>>next&15), ip) {
					return
				}
			}
			if inIP && !yield(IPIP, ip) {
				return
			}
		}
	}
}

// Tunnelled reports whether the innermost packet is inside another IP header.
func (f *Frame) Tunnelled() bool {
	if f.single() {
		return false
	}
	w := f.inner()
	return w.ip != w.outer
}

// ICMPv6 returns the message of an ICMPv6 packet without a tunnel, from its type field on; ok is false for other
// frames.
func (f *Frame) ICMPv6() (message []byte, ok bool) {
	if f.udp != 0 {
		return nil, false
	}
	w := f.outer()
	if w.err != errNotUDP || w.proto != wire.ProtoICMPv6 || w.ip != w.outer || w.version != 6 ||
		!w.allowTruncated && w.missing {
		return nil, false
	}
	end := min(w.end, w.stop)
	return f.octets[w.udp:end:end], true
}

// Fragment returns the UDP destination port if the innermost packet is the first fragment of a datagram. ok is false
// for later fragments, which do not contain the port, for fragments of other protocols, and for other packets.
func (f *Frame) Fragment() (port uint16, ok bool) { return f.inner().fragment(f.octets) }

// BorderPacket returns the octets of the innermost packet, even if it is malformed: from the last IP header that can be
// reached up to the end of the packet or frame around it, or up to the end of the captured octets. It continues after
// an IP header with a wrong length field, but does not enter mirrored frames, because their packets are copies. It
// returns nil if there is no IP header. The result aliases the octets of the frame.
//
// It is for border routers, which must also decide about malformed packets.
func (f *Frame) BorderPacket() []byte {
	b := f.octets
	if f.single() {
		return b[f.ip:len(b):len(b)]
	}
	w := way{border: true, encapsulations: f.options.Encapsulations}
	if f.udp != 0 { // a new walk takes less time than a copy of f.way
		f.plainWalk(&w.walk)
	} else {
		outer := f.outer()
		switch {
		case outer.mirror > 0:
			carrier := &outer.packets[outer.mirror-1]
			return b[carrier.ip:carrier.stop:carrier.stop]
		case !outer.carries():
			return outer.octets(b)
		}
		w.walk = outer.walk
	}
	w.allowTruncated = true
	_ = w.descend(b) // after an error, octets returns the last packet that was reached
	return w.octets(b)
}

// Extensions iterates over the type and the octets of each IPv6 extension header of type 0 (Hop-by-Hop Options), 43
// (Routing) or 60 (Destination Options), of all IP headers, the outermost first. It does not need a UDP header. If a
// header cannot be read, the iteration ends before it, without an error.
func (f *Frame) Extensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		w := f.inner()
		ip, udp := w.ip, w.udp // read before yield, which may call methods that change the walk
		for _, p := range w.packets[:w.n] {
			if !f.yieldExtensions(yield, int(p.ip), int(p.udp)) {
				return
			}
		}
		f.yieldExtensions(yield, ip, udp)
	}
}

// yieldExtensions yields the extension headers, which end at udp, of the IP header at ip if that is IPv6. It
// reports whether to continue.
func (f *Frame) yieldExtensions(yield func(uint8, []byte) bool, ip, udp int) bool {
	if b := f.octets; udp > ip+wire.IPv6Size && wire.IsIPv6(b[ip:]) {
		for next, header := range wire.Extensions(wire.Protocol(b[ip:]), b[ip+wire.IPv6Size:udp]) {
			if !yield(next, header) {
				return false
			}
		}
	}
	return true
}

// leadsOn reports whether the walk continues into a header of this protocol.
func (f *Frame) leadsOn(proto uint8) bool {
	switch proto {
	case wire.ProtoIPv4, wire.ProtoIPv6:
		return true
	case wire.ProtoGRE, wire.ProtoMPLS, wire.ProtoEthernet:
		return !f.options.Outer
	}
	return false
}

// SnapLength returns the snap length, in octets, that a capture needs at least to keep the frame up to the end of a UDP
// header with one of these destination ports. Depending on the missing octets, a larger one may be needed. SnapLength
// returns 0 if the walk did not end because of missing octets, or if the octets that are there exclude such a UDP
// header.
func (f *Frame) SnapLength(ports ...uint16) int {
	w, b := f.inner(), f.octets
	there := len(b) - w.udp
	switch {
	case errors.Is(f.broken, wireerr.Truncated) && (w.missing || w.err == errNotIP):
		return len(b) + 8 + wire.EthernetSize + 40 + 8 // the headers of a tunnel or of the frame in it are truncated
	case len(b) == 0 || f.broken != nil || !errors.Is(w.err, wireerr.Truncated):
		return 0
	case w.version == noVersion: // the link-layer header is truncated
		end := f.options.Link.size()
		for end <= len(b) { // each complete tag is followed by another one
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
		if there > 0 && b[w.udp] != wire.ProtoUDP && !wire.IsExtension(b[w.udp]) && !f.leadsOn(b[w.udp]) {
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
		if !slices.Contains(ports, port) && (f.options.Outer || !f.options.Encapsulations.isTunnelPort(port)) {
			return 0
		}
	}
	return max(end+8, len(b)+1)
}
