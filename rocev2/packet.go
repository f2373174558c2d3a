package rocev2

import (
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/crc"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
)

// Port is the UDP destination port of RoCEv2, 4791 (IBTA annex A17).
const Port = wire.PortRoCEv2

// minData is the smallest length of the UDP data of a RoCEv2 packet, in octets: BTH and ICRC.
const minData = bth.Size + wire.ICRCSize

// A Packet is a RoCEv2 packet (IBTA annex A17):
//
//	[Ethernet, VLAN tags] [outer IP headers] IP, options or extension headers,
//	UDP | BTH | extended transport headers | payload | pad | ICRC
//
// A switch may trim a data packet instead of dropping it: it keeps the first octets, at least those of the BTH, and
// corrects the IP length. The UDP length then exceeds the IP packet, and gives the original length. Such a packet is
// Trimmed and Truncated. Extended headers that are not complete are absent from BTH.Present, as in a packet that a
// network device has truncated without a word (D13).
//
// The zero value is ready for any number of Decode calls. Decode allocates nothing.
type Packet struct {
	Datagram
	BTH bth.Headers

	// Payload is the octets between the headers and the pad. It aliases the input. In a CNP it is the 16 reserved
	// octets; with an unknown opcode, all octets from the BTH to the ICRC. In a Truncated packet it has only the octets
	// that are there; PayloadLen returns the number that was sent.
	Payload []byte
	Padding []byte // pad octets, as many as the pad count gives; nil if there are none; aliases the input

	ICRC uint32 // value on the wire, least significant octet first; 0 if Truncated
	// Coverage is the way in which AppendBinary computes the ICRC. Decode sets it to AsSent, and VerifyICRC to the
	// coverage that matches (D1).
	Coverage icrc.Coverage
}

// DecodeEthernet sets p from an Ethernet II frame: plain, 802.1Q, 802.1ad or
// stacked tags. p aliases b.
func (p *Packet) DecodeEthernet(b []byte) error { return p.Decode(b, DecodeOptions{}) }

// DecodeIP sets p from an IPv4 or IPv6 packet. p aliases b.
func (p *Packet) DecodeIP(b []byte) error { return p.Decode(b, DecodeOptions{Link: LinkIP}) }

// Decode sets p from the octets b, which o describes; p aliases b. If b is other traffic, the error matches
// [ErrNotRoCEv2]; other errors mean a malformed RoCEv2 packet. On error p is unchanged.
//
// Decode does not verify the ICRC: see VerifyICRC. It accepts every TVer, all reserved bits and every AETH syndrome. It
// also accepts a payload that the opcode does not allow, and a payload that is not a multiple of 4 octets together with
// its pad: see Validate.
func (p *Packet) Decode(b []byte, o DecodeOptions) error {
	if o.Link == LinkEthernet && len(b) >= wire.EthernetSize+2 { // as in firstBranch, without the call
		const ip = wire.EthernetSize
		first := be.Uint32(b[12:])
		udp, end := wire.PlainUDP(b, ip, first)
		if udp == 0 {
			udp, end = wire.ExtendedUDP(b, ip, first)
		}
		if end <= len(b) && end >= udp+wire.UDPSize {
			return setPacket[[ip]byte](p, b, ip, udp, end)
		}
	} else if ip, udp, end := firstBranch(b, o.Link); udp != 0 {
		return p.setPlain(b, ip, udp, end)
	}
	var w walk
	if err := w.from(b, o); err != nil {
		return err
	}
	return p.fromWalk(b, &w, o.AllowTruncated)
}

// fromWalk sets p from a walk that has ended.
func (p *Packet) fromWalk(b []byte, w *walk, allowTruncated bool) error {
	switch {
	case w.err != nil:
		return w.err
	case w.port != Port:
		return ErrPort
	}
	if err := w.checkLength(b, allowTruncated || w.allowTruncated); err != nil {
		return err
	}
	b = b[:w.stop]
	var err error
	if w.end > w.stop {
		err = p.setTruncated(b, w.ip, w.udp, w.end, allowTruncated)
	} else {
		err = setPacket[[anywhere]byte](p, b, w.ip, w.udp, w.end)
	}
	if err != nil {
		return err
	}
	p.setLink(b, w.link, w.ip)
	return nil
}

// setPlain sets p from a plain frame with the offsets that firstBranch returns.
func (p *Packet) setPlain(b []byte, ip, udp, end int) error {
	if ip == 0 {
		return setPacket[[0]byte](p, b, ip, udp, end)
	}
	return setPacket[[wire.EthernetSize]byte](p, b, ip, udp, end)
}

// A start is an array type. Its length is the offset of the IP header, or anywhere if the offset is not a constant.
type start interface {
	[0]byte | [wire.EthernetSize]byte | [anywhere]byte
}

const anywhere = 0xFF

// setPacket sets p from the datagram in b at these offsets, which mean the same as in a walk; b ends at its stop. It
// sets the fields that Datagram.set and setTransport set. It is compiled for each L: a constant offset of the IP header
// and a UDP offset of 16 bits need fewer checks, which makes plain frames a tenth faster.
func setPacket[L start](p *Packet, b []byte, ip, udp, end int) error {
	var at L
	if len(at) != anywhere {
		ip, udp = len(at), int(uint16(udp))
	}
	if end > len(b) || end < udp+wire.UDPSize+minData {
		return p.setTruncated(b, ip, udp, end, false)
	}
	b = b[:end:end]
	u := (*[wire.UDPSize + minData]byte)(b[udp:])
	length := int(wire.UDPLength(u[:])) - wire.UDPSize
	l := layoutOf(u[wire.UDPSize], u[wire.UDPSize+1], length)
	if wire.DstPort(u[:]) != Port || udp+wire.UDPSize+length > end || l.headers > l.payload {
		return p.setTruncated(b, ip, udp, end, false)
	}
	d := &p.Datagram
	d.Link, d.Outer, d.IP = b[:ip:ip], nil, b[ip:end:end]
	if wire.IsIPv6(b[ip:]) {
		h := (*[wire.IPv6Size]byte)(b[ip:])
		d.Src, d.Dst = netip.AddrFrom16([16]byte(h[8:24])), netip.AddrFrom16([16]byte(h[24:40]))
		d.setIPv6(h)
		d.setExt(b, ip+wire.IPv6Size, udp)
	} else {
		h := (*[wire.IPv4Size]byte)(b[ip:])
		d.Src, d.Dst = netip.AddrFrom4([4]byte(h[12:16])), netip.AddrFrom4([4]byte(h[16:20]))
		d.setIPv4(h)
		d.setExt(b, ip+wire.IPv4Size, udp)
	}
	d.setUDP((*[wire.UDPSize]byte)(u[:]))
	data := b[udp+wire.UDPSize : udp+wire.UDPSize+length : udp+wire.UDPSize+length]
	d.Data, d.Truncated, d.Trimmed = data, false, false

	rest, _ := p.BTH.Decode(data) // cannot fail: the headers are there
	p.setPayload(data, rest, l)
	p.ICRC, p.Coverage = le.Uint32(data[l.padding:]), icrc.AsSent
	return nil
}

// setTruncated is setPacket for a datagram with a wrong port, wrong lengths or missing octets. With whole, the extended
// headers must be complete.
func (p *Packet) setTruncated(b []byte, ip, udp, end int, whole bool) error {
	ipEnd := min(end, len(b))
	u := b[udp : udp+wire.UDPSize]
	length := int(wire.UDPLength(u))
	switch {
	case wire.DstPort(u) != Port:
		return ErrPort
	case length < wire.UDPSize:
		return errUDPLength
	case udp+length > end && !isTrimmed(b[udp:ipEnd]):
		return errUDPBeyondIP
	}
	l, err := layOut(b[udp+wire.UDPSize:min(udp+length, ipEnd)], length-wire.UDPSize, whole)
	if err != nil {
		return err
	}
	p.Datagram.set(b, ip, udp, end)
	p.setTransport(l)
	return nil
}

// DecodeDatagram sets p from a decoded datagram, which may be &p.Datagram. It does not check the ports. p aliases the
// octets that d aliases. On error p is unchanged.
func (p *Packet) DecodeDatagram(d *Datagram) error {
	if there := int(d.Length) - wire.UDPSize; len(d.Data) > there || len(d.Data) < there && !d.Truncated {
		return errDataLength
	}
	l, err := layOut(d.Data, int(d.Length)-wire.UDPSize, !d.Trimmed)
	if err != nil {
		return err
	}
	if d != &p.Datagram {
		p.Datagram = *d
	}
	p.setTransport(l)
	return nil
}

// A layout has the ends of BTH with extended headers, of payload and of pad, as offsets from the BTH.
type layout struct{ headers, payload, padding int }

// layoutOf returns the layout of UDP data of this length that begins with these two octets. A CNP has no pad, with any
// pad count. With an unknown opcode, all octets after the BTH up to the ICRC are payload. The parts overlap if headers
// is greater than payload.
func layoutOf(first, second byte, length int) (l layout) {
	op := bth.Opcode(first)
	l.headers = bth.Size + op.HeaderLen()
	l.padding = length - wire.ICRCSize
	if l.payload = l.padding; op.IsKnown() && op != bth.CNP {
		l.payload -= int(second >> 4 & 3)
	}
	return l
}

// layOut returns the layout of UDP data of this length; a truncated packet has fewer octets. It needs the octets of the
// BTH and, with whole, those of the extended headers.
func layOut(data []byte, length int, whole bool) (l layout, err error) {
	if length < minData {
		return l, errRoom
	}
	if len(data) < bth.Size {
		return l, errHeadersTruncated
	}
	l = layoutOf(data[0], data[1], length)
	switch {
	case l.headers > l.padding:
		return l, errHeadersRoom
	case l.headers > len(data) && whole:
		return l, errHeadersTruncated
	case l.headers > l.payload:
		return l, errPad
	}
	return l, nil
}

// setTransport sets the fields after the UDP header, from p.Data.
func (p *Packet) setTransport(l layout) {
	p.ICRC, p.Coverage = 0, icrc.AsSent
	rest, err := p.BTH.Decode(p.Data)
	if err != nil { // the extended headers are not all there
		rest, _ = p.BTH.Header.Decode(p.Data)
		p.BTH = bth.Headers{Header: p.BTH.Header}
		p.Payload, p.Padding = rest[:0:0], nil
		return
	}
	if p.Truncated {
		there := len(p.Data)
		l.payload, l.padding = min(l.payload, there), min(l.padding, there)
	} else {
		p.ICRC = le.Uint32(p.Data[l.padding:])
	}
	p.setPayload(p.Data, rest, l)
}

// setPayload sets payload and pad. data begins with the BTH, rest after the extended headers.
func (p *Packet) setPayload(data, rest []byte, l layout) {
	n := l.payload - l.headers
	p.Payload, p.Padding = rest[:n:n], nil
	if l.padding > l.payload {
		p.Padding = data[l.payload:l.padding:l.padding]
	}
}

// PayloadLen returns the number of payload octets that were sent, without the pad, even if the capture truncated them.
// A Truncated p must have been decoded.
func (p *Packet) PayloadLen() int {
	if !p.Truncated {
		return len(p.Payload)
	}
	l, _ := layOut(p.Data, int(p.Length)-wire.UDPSize, false)
	return l.payload - l.headers
}

// padding returns the pad octets that AppendBinary appends after the payload.
func (p *Packet) padding() []byte {
	if p.Padding == nil && p.hasPad() && p.BTH.Pad <= 3 {
		return zeros[:p.BTH.Pad]
	}
	return p.Padding
}

// hasPad reports whether the pad count has a meaning. In a CNP and with an unknown opcode it has none.
func (p *Packet) hasPad() bool { return p.BTH.Opcode.IsKnown() && p.BTH.Opcode != bth.CNP }

var zeros [3]byte

// AppendBinary appends the IP packet that the fields describe: IP and UDP as
// [Datagram] does without Data, then BTH, the extended headers of the opcode,
// Payload, Padding and ICRC. It computes lengths, the IPv4 header checksum and
// the ICRC, and unless Checksum is 0 the UDP checksum. A decoded packet with
// right checksums is appended unchanged, but without the octets after its UDP
// length and without Outer: tunnels are not rebuilt. The ICRC is computed by
// p.Coverage, which Decode sets to AsSent; if another one is possible, call
// VerifyICRC first.
//
// The payload may be longer or shorter than the opcode allows. If the opcode
// has a pad, Padding must have as many octets as the BTH's pad count says, or
// be nil for zeros; otherwise it must be empty. A Truncated packet cannot be
// built.
//
// Each field is sent as it is, even if it is 0, because a decoded field may be 0. A program that fills a Packet must
// set
//
//   - DstPort, to [Port];
//   - HopLimit;
//   - BTH.PKey, to bth.DefaultPKey in the default partition;
//   - BTH.Pad, to -len(Payload)&3, because payload and pad together are a multiple of 4 octets;
//   - over IPv4, Flags to 2, or ID (see [Carriage]).
//
// Validate reports wrong values of hop limit, BTH, payload and pad.
//
// b must not overlap the octets that p aliases: a packet decoded from buf cannot be appended to buf[:0].
func (p *Packet) AppendBinary(b []byte) ([]byte, error) {
	pad, wanted := p.padding(), 0
	if p.hasPad() {
		wanted = int(p.BTH.Pad)
	}
	switch {
	case p.Truncated:
		return b, errTruncated
	case len(pad) != wanted:
		return b, errPaddingSize
	}
	out, err := p.appendHeaders(b, p.BTH.Len()+len(p.Payload)+len(pad)+wire.ICRCSize)
	if err != nil {
		return b, err
	}
	if out, err = p.BTH.AppendBinary(out); err != nil {
		return b, err
	}
	out = append(append(append(out, p.Payload...), pad...), 0, 0, 0, 0)
	ip, udp := out[len(b):], p.headerLen()
	if p.Coverage == icrc.AsSent {
		crc.Write(ip, udp) // faster than icrc.Write, which searches for the UDP header
	} else if err := icrc.Write(ip, p.Coverage); err != nil {
		return b, err
	}
	if p.Checksum != 0 {
		ipudp.PutChecksum(ip, udp) // after the ICRC, which it covers; the ICRC masks the checksum field
	}
	return out, nil
}
