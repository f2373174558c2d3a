package rocev2

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/crc"
	"github.com/rocecn/rocecn/internal/ipudp"
)

// Port is the UDP destination port of RoCEv2 (IBTA annex A17).
const Port = 4791

// The smallest UDP data of a RoCEv2 packet: BTH and ICRC.
const minData = bth.Size + icrcSize

const icrcSize = 4

// A Packet is a RoCEv2 packet (IBTA annex A17):
//
//	[Ethernet, VLAN tags] [outer IP headers] IP, options or extension headers,
//	UDP | BTH | extended transport headers | payload | pad | ICRC
//
// The zero value is ready for any number of Decode calls; they allocate
// nothing.
type Packet struct {
	Datagram
	BTH bth.Headers

	// Payload is between the headers and the pad: in a CNP the 16 reserved
	// octets, with an unknown opcode everything up to the ICRC. It aliases the
	// input. In a Truncated packet it is as much as is there; PayloadLen
	// returns how much was sent.
	Payload []byte
	Padding []byte // as many pad octets as the pad count says, nil for none; aliases the input

	ICRC uint32 // the value on the wire, least significant octet first; 0 when Truncated
	// how AppendBinary computes the ICRC; Decode sets it to AsSent, VerifyICRC to what it finds (D1)
	Coverage icrc.Coverage
}

// DecodeEthernet sets p from an Ethernet II frame: plain, 802.1Q, 802.1ad or
// stacked tags. p aliases b.
func (p *Packet) DecodeEthernet(b []byte) error { return p.Decode(b, DecodeOptions{}) }

// DecodeIP sets p from an IPv4 or IPv6 packet. p aliases b.
func (p *Packet) DecodeIP(b []byte) error { return p.Decode(b, DecodeOptions{Link: LinkIP}) }

// Decode sets p from octets as o describes them; p aliases b. An error that
// [ErrNotRoCEv2] matches means that b is other traffic, other errors mean a
// broken RoCEv2 packet. On error p is unchanged.
//
// Decode does not verify the ICRC: see VerifyICRC. Neither does it refuse any
// TVer, reserved bits or AETH syndromes, nor a payload that the opcode does not
// have or that is, with its pad, not a multiple of 4 octets.
func (p *Packet) Decode(b []byte, o DecodeOptions) error {
	if o.Link == LinkEthernet {
		udp, end := plain(b)
		if udp == 0 {
			udp, end = plainExtended(b, ethernetSize)
		}
		if udp != 0 {
			if ok, err := decodePlain[[ethernetSize]byte](p, b, uint16(udp), end); ok {
				return err
			}
		}
	} else if ip, udp, end := plainIn(b, o.Link); udp != 0 {
		if ok, err := p.decodePlainIn(b, ip, udp, end); ok {
			return err
		}
	}
	var w walk
	if err := w.from(b, o); err != nil {
		return err
	}
	return p.fromWalk(b, &w, o.Cut)
}

// fromWalk sets p from a walk that has ended.
func (p *Packet) fromWalk(b []byte, at *walk, cut bool) error {
	switch {
	case at.err != nil:
		return at.err
	case at.port != Port:
		return ErrPort
	}
	if err := at.checkLength(cut); err != nil {
		return err
	}
	length := int(at.length)
	l, err := layOut(b[at.udp+8:min(at.udp+length, at.stop)], length-8)
	if err != nil {
		return err
	}
	p.Datagram.set(b, at)
	p.setTransport(l)
	return nil
}

// DecodeDatagram sets p from a decoded datagram, which may be p's own; its
// ports do not matter. p aliases what d aliases. On error p is unchanged.
func (p *Packet) DecodeDatagram(d *Datagram) error {
	if there := int(d.Length) - 8; len(d.Data) > there || len(d.Data) < there && !d.Truncated {
		return errDataLength
	}
	l, err := layOut(d.Data, int(d.Length)-8)
	if err != nil {
		return err
	}
	if d != &p.Datagram {
		p.Datagram = *d
	}
	p.setTransport(l)
	return nil
}

// layout has the ends of BTH with extended headers, of payload and of pad, as
// offsets from the BTH.
type layout struct{ headers, payload, padding int }

// layOut returns the layout of UDP data of this length; a cut packet has fewer
// octets. A CNP has no pad, whatever its pad count says. With an unknown opcode
// nothing after the BTH is known, and no length is computed from it.
func layOut(data []byte, length int) (l layout, err error) {
	if length < minData {
		return l, errRoom
	}
	if len(data) < bth.Size {
		return l, errHeadersCut
	}
	op := bth.Opcode(data[0])
	l.headers = bth.Size + op.HeaderLen()
	l.padding = length - icrcSize
	l.payload = l.padding
	switch {
	case l.headers > l.padding:
		return l, errHeadersRoom
	case l.headers > len(data):
		return l, errHeadersCut
	case op.Known() && op != bth.CNP:
		l.payload -= int(data[1] >> 4 & 3)
		if l.payload < l.headers {
			return l, errPad
		}
	}
	return l, nil
}

func (p *Packet) setTransport(l layout) {
	rest, _ := p.BTH.Decode(p.Data) // cannot fail: layOut saw the headers
	if p.Truncated {
		there := len(p.Data)
		l.payload, l.padding = min(l.payload, there), min(l.padding, there)
		p.ICRC = 0
	} else {
		p.ICRC = le.Uint32(p.Data[l.padding:])
	}
	n := l.payload - l.headers
	p.Payload = rest[:n:n]
	p.Padding = nil
	if l.padding > l.payload {
		p.Padding = p.Data[l.payload:l.padding:l.padding]
	}
	p.Coverage = icrc.AsSent
}

// PayloadLen returns how many octets of payload were sent, without the pad,
// also when the capture cut them. A Truncated p must have been decoded.
func (p *Packet) PayloadLen() int {
	if !p.Truncated {
		return len(p.Payload)
	}
	l, _ := layOut(p.Data, int(p.Length)-8)
	return l.payload - l.headers
}

// padding returns what AppendBinary appends after the payload.
func (p *Packet) padding() []byte {
	if p.Padding == nil && p.hasPad() && p.BTH.Pad <= 3 {
		return zeros[:p.BTH.Pad]
	}
	return p.Padding
}

// hasPad says whether the pad count means anything: it does not in a CNP and
// with an unknown opcode.
func (p *Packet) hasPad() bool { return p.BTH.Opcode.Known() && p.BTH.Opcode != bth.CNP }

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
// Each field is sent as it is, 0 too, because a decoded one may be 0. A program that
// fills a Packet sets DstPort to [Port], HopLimit, BTH.PKey (bth.DefaultPKey in the
// default partition) and BTH.Pad, which is -len(Payload)&3, since payload and pad are
// a multiple of 4 octets; over IPv4 also Flags to 2, or ID (see [Carriage]). Validate
// reports what is wrong with hop limit, BTH, payload and pad.
//
// b must not overlap the octets that p aliases: what was decoded from buf is not
// to be appended to buf[:0].
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
	out, err := p.appendHeaders(b, p.BTH.Len()+len(p.Payload)+len(pad)+icrcSize)
	if err != nil {
		return b, err
	}
	if out, err = p.BTH.AppendBinary(out); err != nil {
		return b, err
	}
	out = append(append(append(out, p.Payload...), pad...), 0, 0, 0, 0)
	ip, udp := out[len(b):], p.headerLen()
	if p.Coverage == icrc.AsSent {
		crc.Put(ip, udp) // need not look for what is known
	} else if err := icrc.Put(ip, p.Coverage); err != nil {
		return b, err
	}
	if p.Checksum != 0 {
		ipudp.PutChecksum(ip, udp) // after the ICRC, which it covers; the ICRC masks the checksum field
	}
	return out, nil
}
