package rocev2

import (
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/internal/wire"
)

// A Datagram is a UDP datagram with the fields of the IP packet that carries it. RoCEv2 packets, FCN and proxy messages
// are UDP datagrams.
//
// With IP in IP (D12), the fields are those of the innermost IP packet, which contains the UDP header. Decoding does
// not verify the checksums of IPv4 and UDP: see VerifyChecksum.
type Datagram struct {
	// Link, Outer and IP are parts of the octets given to Decode, in this order, and alias them. AppendBinary does not
	// use them.
	Link  []byte // link-layer header with its VLAN tags; empty for a bare IP packet
	Outer []byte // headers between Link and IP: tunnels, MPLS labels included; nil if there are none
	IP    []byte // innermost IP packet, up to the end that its length field gives; shorter if Truncated

	Src, Dst     netip.Addr // addresses, both IPv4 or both IPv6; AppendBinary ignores a zone
	TrafficClass uint8      // DSCP and ECN: Traffic Class of IPv6, TOS of IPv4
	HopLimit     uint8      // Hop Limit of IPv6, TTL of IPv4; sent unchanged, even if 0
	FlowLabel    uint32     // flow label, 20 bits; IPv6 only
	ID           uint16     // Identification, IPv4 only; hosts may replace 0 without Don't Fragment: see Carriage
	Flags        uint8      // flags, IPv4 only: 0, 2 (Don't Fragment), 4 (reserved) or 6; sent unchanged
	NextHeader   uint8      // type of the first header in Ext: 0, 43 or 60; IPv6 only, not used if Ext is empty
	Ext          []byte     // IPv4 options or IPv6 extension headers; nil if there are none; aliases the input

	SrcPort, DstPort uint16 // UDP ports; sent unchanged, even if 0
	Length           uint16 // length of UDP header and data, in octets; AppendBinary computes it
	Checksum         uint16 // UDP checksum; AppendBinary sends 0 for 0, and computes it for any other value
	Data             []byte // octets after the UDP header, up to Length; aliases the input

	Truncated bool // octets are missing that the length fields promise: see DecodeOptions (D13)
	Trimmed   bool // a switch has trimmed the RoCEv2 packet: see Packet; then Truncated is set as well
}

// DSCP returns the Differentiated Services Code Point, 0–63.
func (d *Datagram) DSCP() uint8 { return d.TrafficClass >> 2 }

// ECN returns the ECN field.
func (d *Datagram) ECN() ECN { return ECN(d.TrafficClass & 3) }

// FinalDst returns the final destination: Segment List[0] if Ext contains a
// type 4 Routing header (RFC 8754) with Segments Left above 0 (the last one
// counts), otherwise Dst. The sender and the receiver of the flow use this
// address.
func (d *Datagram) FinalDst() netip.Addr {
	if len(d.Ext) == 0 {
		return d.Dst
	}
	return d.routedTo()
}

// routedTo implements FinalDst for a datagram with options or extension headers.
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

// Decode sets d from the octets b, which o describes, if they contain a UDP datagram to one of these destination ports,
// or to any port if ports is empty. d aliases b. Decode ignores octets after the IP packet (Ethernet padding) and after
// the end that the UDP length gives. If b contains no such datagram, the error matches [ErrNotRoCEv2]; other errors
// mean that the datagram is malformed. On error d is unchanged.
func (d *Datagram) Decode(b []byte, o DecodeOptions, ports ...uint16) error {
	if ip, udp, end := firstBranch(b, o.Link); udp != 0 {
		return d.decodePlain(b, ip, udp, end, ports)
	}
	var w walk
	if err := w.from(b, o); err != nil {
		return err
	}
	return d.fromWalk(b, &w, o.AllowTruncated, ports)
}

// decodePlain implements Decode for a plain frame with the offsets that firstBranch returns.
func (d *Datagram) decodePlain(b []byte, ip, udp, end int, ports []uint16) error {
	u := be.Uint64(b[udp:])
	length := int(uint16(u >> 16))
	switch {
	case len(ports) > 0 && !slices.Contains(ports, uint16(u>>32)):
		return ErrPort
	case length < wire.UDPSize:
		return errUDPLength
	case udp+length > end && !isTrimmed(b[udp:end]):
		return errUDPBeyondIP
	}
	d.set(b, ip, udp, end)
	return nil
}

// fromWalk sets d if the walk led to a UDP datagram to one of these ports (any port if there are none) and its lengths
// are right. With allowTruncated, missing octets at the end are no error.
func (d *Datagram) fromWalk(b []byte, w *walk, allowTruncated bool, ports []uint16) error {
	switch {
	case w.err != nil:
		return w.err
	case len(ports) > 0 && !slices.Contains(ports, w.port):
		return ErrPort
	}
	if err := w.checkLength(b, allowTruncated || w.allowTruncated); err != nil {
		return err
	}
	b = b[:w.stop]
	d.set(b, w.ip, w.udp, w.end)
	d.setLink(b, w.link, w.ip)
	return nil
}

// set sets d from a datagram in b at these offsets, which mean the same as in a walk; b ends at its stop. Data may be
// truncated. The link-layer header is everything before the IP header, until setLink is called.
func (d *Datagram) set(b []byte, ip, udp, end int) {
	ipEnd := min(end, len(b))
	d.Link, d.Outer, d.IP = b[:ip:ip], nil, b[ip:ipEnd:ipEnd]
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
	u := (*[wire.UDPSize]byte)(b[udp:])
	d.setUDP(u)
	dataEnd := udp + int(wire.UDPLength(u[:]))
	d.Trimmed = dataEnd > end
	d.Truncated = max(dataEnd, end) > ipEnd
	dataEnd = min(dataEnd, ipEnd)
	d.Data = b[udp+wire.UDPSize : dataEnd : dataEnd]
}

// setLink sets the link-layer header and the headers between it and the IP header.
func (d *Datagram) setLink(b []byte, link, ip int) {
	if d.Link = b[:link:link]; ip > link {
		d.Outer = b[link:ip:ip]
	}
}

// The functions below set the fields of one header each. They are small enough to be inlined into setPacket, which
// would take a third longer with a call for each.

func (d *Datagram) setIPv6(h *[wire.IPv6Size]byte) {
	first := be.Uint64(h[:])
	d.TrafficClass, d.FlowLabel = uint8(first>>52), uint32(first>>32)&0xFFFFF
	d.NextHeader, d.HopLimit = uint8(first>>8), uint8(first)
	d.ID, d.Flags = 0, 0
}

func (d *Datagram) setIPv4(h *[wire.IPv4Size]byte) {
	d.TrafficClass, d.FlowLabel = h[1], 0
	d.NextHeader, d.HopLimit = 0, h[8]
	d.ID, d.Flags = be.Uint16(h[4:]), h[6]>>5
}

// setExt sets the octets between the fixed IP header and the UDP header.
func (d *Datagram) setExt(b []byte, from, udp int) {
	if d.Ext = nil; udp > from {
		d.Ext = b[from:udp:udp]
	}
}

func (d *Datagram) setUDP(h *[wire.UDPSize]byte) {
	u := be.Uint64(h[:])
	d.SrcPort, d.DstPort, d.Length, d.Checksum = uint16(u>>48), uint16(u>>32), uint16(u>>16), uint16(u)
}
