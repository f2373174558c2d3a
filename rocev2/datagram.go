package rocev2

import (
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/internal/wire"
)

// A Datagram is a UDP datagram and the IP packet that carries it: the part that
// RoCEv2, FCN and the proxy message have in common.
//
// With IP in IP (D12) it has the fields of the innermost packet, which contains
// the UDP header. Decoding does not verify the checksums of IPv4 and UDP.
type Datagram struct {
	// Link, Outer and IP are parts of what Decode was given, in this order, and
	// alias it. AppendBinary does not use them.
	Link  []byte // the link-layer header with its VLAN tags; empty for a bare IP packet
	Outer []byte // the headers of tunnels, from the outermost IP header up to the innermost one; nil without any
	IP    []byte // the innermost IP packet, as long as its length field says unless Truncated

	Src, Dst     netip.Addr // both IPv4 or both IPv6; a zone is not sent
	TrafficClass uint8      // DSCP and ECN: IPv6 Traffic Class, IPv4 TOS
	HopLimit     uint8      // IPv4: TTL; sent unchanged, 0 too
	FlowLabel    uint32     // 20 bits, IPv6 only
	ID           uint16     // IPv4 only; hosts may replace a 0 without Don't Fragment: see Carriage
	Flags        uint8      // IPv4 only: the 3 flag bits, 2 is Don't Fragment; sent unchanged
	NextHeader   uint8      // IPv6 only: what Ext begins with, 0, 43 or 60; not used where Ext is empty
	Ext          []byte     // IPv4 options or IPv6 extension headers, nil without any; aliases the input

	SrcPort, DstPort uint16 // sent unchanged, 0 too
	Length           uint16 // of UDP header and data, in octets; AppendBinary computes it
	Checksum         uint16 // AppendBinary sends 0 for 0, and the right checksum for any other value
	Data             []byte // what follows the UDP header, up to Length; aliases the input

	Truncated bool // octets are missing that the length fields promise: see DecodeOptions (D13)
}

// DSCP returns the Differentiated Services Code Point, 0–63.
func (d *Datagram) DSCP() uint8 { return d.TrafficClass >> 2 }

// ECN returns the ECN field.
func (d *Datagram) ECN() ECN { return ECN(d.TrafficClass & 3) }

// FinalDst returns the final destination: Segment List[0] if Ext contains a
// type 4 Routing header (RFC 8754) with Segments Left above 0 (the last one
// counts), otherwise Dst. This is the address that sender and receiver of the
// flow know.
func (d *Datagram) FinalDst() netip.Addr {
	if len(d.Ext) == 0 {
		return d.Dst
	}
	return d.routedTo()
}

// routedTo is FinalDst for a datagram with options or extension headers.
func (d *Datagram) routedTo() netip.Addr {
	if d.Src.Is6() {
		if final, _ := wire.FinalSegment(d.NextHeader, d.Ext); final != nil {
			return netip.AddrFrom16([16]byte(final))
		}
	}
	return d.Dst
}

// DecodeIP sets d from an IPv4 or IPv6 packet. d aliases b.
func (d *Datagram) DecodeIP(b []byte) error { return d.Decode(b, DecodeOptions{Link: LinkIP}) }

// Decode sets d from octets as o describes them, if they contain a UDP datagram
// to one of these destination ports; without ports any will do. d aliases b.
// Octets after the IP packet (Ethernet padding) and after the UDP length are
// ignored. An error that [ErrNotRoCEv2] matches means that b contains no UDP
// datagram to such a port; other errors mean that the datagram is broken. On
// error d is unchanged.
func (d *Datagram) Decode(b []byte, o DecodeOptions, ports ...uint16) error {
	if ip, udp, end := plainIn(b, o.Link); udp != 0 {
		return d.decodePlain(b, ip, udp, end, ports)
	}
	var w walk
	if err := w.from(b, o); err != nil {
		return err
	}
	if err := w.check(o.Cut, ports); err != nil {
		return err
	}
	d.set(b, &w)
	return nil
}

// decodePlain is Decode for a frame with the offsets that plainIn returns.
func (d *Datagram) decodePlain(b []byte, ip, udp, end int, ports []uint16) error {
	header := be.Uint64(b[udp:])
	length := int(uint16(header >> 16))
	switch {
	case len(ports) > 0 && !slices.Contains(ports, uint16(header>>32)):
		return ErrPort
	case length < 8:
		return errUDPLength
	case udp+length > end:
		return errUDPBeyondIP
	}
	d.setAt(b, ip, ip, ip, udp, end)
	return nil
}

// set sets d from a walk that found a datagram in b.
func (d *Datagram) set(b []byte, at *walk) {
	d.setAt(b[:at.stop], at.link, at.outer, at.ip, at.udp, at.end)
}

// setAt sets d from a datagram in b at these offsets, which mean what they do in a walk; b ends where its stop is.
func (d *Datagram) setAt(b []byte, linkEnd, outer, ip, udp, ipEnd int) {
	d.Link, d.Outer, d.Ext = b[:linkEnd:linkEnd], nil, nil
	if ip > outer {
		d.Outer = b[outer:ip:ip]
	}
	end := min(ipEnd, len(b))
	d.IP = b[ip:end:end]
	ext := ip + 20
	if b[ip]>>4 == 6 {
		ext = ip + 40
		h := (*[40]byte)(b[ip:])
		d.Src, d.Dst = netip.AddrFrom16([16]byte(h[8:24])), netip.AddrFrom16([16]byte(h[24:40]))
		first := be.Uint32(h[0:])
		d.TrafficClass, d.FlowLabel = uint8(first>>20), first&0xFFFFF
		d.HopLimit = h[7]
		d.ID, d.Flags = 0, 0
		d.NextHeader = h[6]
	} else {
		h := (*[20]byte)(b[ip:])
		d.Src, d.Dst = netip.AddrFrom4([4]byte(h[12:16])), netip.AddrFrom4([4]byte(h[16:20]))
		d.TrafficClass, d.FlowLabel = h[1], 0
		d.HopLimit = h[8]
		d.ID, d.Flags = be.Uint16(h[4:]), h[6]>>5
		d.NextHeader = 0
	}
	if udp > ext {
		d.Ext = b[ext:udp:udp]
	}
	data := udp + 8
	h := (*[8]byte)(b[udp:])
	d.SrcPort, d.DstPort = be.Uint16(h[0:]), be.Uint16(h[2:])
	d.Length, d.Checksum = be.Uint16(h[4:]), be.Uint16(h[6:])
	end = udp + int(d.Length)
	d.Truncated = max(end, ipEnd) > len(b)
	end = min(end, len(b))
	d.Data = b[data:end:end]
}
