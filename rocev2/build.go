package rocev2

import (
	"slices"

	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// headerLen returns the length of the IP header with its options or extension headers, in octets.
func (d *Datagram) headerLen() int {
	if d.Src.Is4() {
		return wire.IPv4Size + len(d.Ext)
	}
	return wire.IPv6Size + len(d.Ext)
}

// AppendBinary appends the IP packet: IP header, Ext, UDP header and Data. It computes all lengths and the IPv4 header
// checksum, and the UDP checksum unless Checksum is 0. To send a frame, append the Ethernet header first. b must not
// overlap the octets that d aliases. On error AppendBinary returns b unchanged.
func (d *Datagram) AppendBinary(b []byte) ([]byte, error) {
	out, err := d.appendHeaders(b, len(d.Data))
	if err != nil {
		return b, err
	}
	out = append(out, d.Data...)
	if d.Checksum != 0 {
		ipudp.PutChecksum(out[len(b):], d.headerLen())
	}
	return out, nil
}

// appendHeaders appends the IP header, Ext and a UDP header with checksum 0, with capacity for n octets of data.
func (d *Datagram) appendHeaders(b []byte, n int) ([]byte, error) {
	size := d.headerLen()
	length := size + wire.UDPSize + n
	if err := d.check(length); err != nil {
		return b, err
	}
	udp := len(b) + size
	out := slices.Grow(b, length)[:udp+wire.UDPSize]
	ip := out[len(b):udp]
	if d.Src.Is4() {
		d.putIPv4(ip, length)
	} else {
		d.putIPv6(ip, length-wire.IPv6Size)
	}
	be.PutUint64(out[udp:], ipudp.UDPHeader(d.SrcPort, d.DstPort, wire.UDPSize+n))
	return out, nil
}

// check returns the reason why d cannot be a packet of n octets, or nil.
func (d *Datagram) check(n int) error {
	switch {
	case d.Src.Is4() && d.Dst.Is4():
		switch {
		case len(d.Ext)%4 != 0 || len(d.Ext) > 40:
			return errIPv4Options
		case d.Flags > 7 || d.Flags&1 != 0:
			return errFlagsRange
		case n > 0xFFFF:
			return wireerr.TooLong
		}
	case d.Src.Is6() && d.Dst.Is6():
		switch {
		case d.FlowLabel > 0xFFFFF:
			return wireerr.FlowLabel
		case n-wire.IPv6Size > 0xFFFF:
			return wireerr.TooLong
		}
		if len(d.Ext) > 0 {
			next, end, _, _ := wire.SkipExtensions(d.Ext, 0, d.NextHeader)
			if next != wire.ProtoUDP || end != len(d.Ext) {
				return errExtRange
			}
		}
	default:
		return wireerr.Addresses
	}
	return nil
}

func (d *Datagram) putIPv4(ip []byte, length int) {
	src, dst := d.Src.As4(), d.Dst.As4()
	fragment := uint32(d.ID)<<16 | uint32(d.Flags)<<13
	options := uint64(0)
	if len(d.Ext) > 0 {
		options = ipudp.Sum(0, d.Ext)
		copy(ip[wire.IPv4Size:], d.Ext)
	}
	to := be.Uint32(dst[:])
	high, low := ipudp.IPv4Header(ipudp.IPv4First(len(ip), length, d.TrafficClass), fragment, d.HopLimit,
		be.Uint32(src[:]), to, options)
	be.PutUint64(ip, high)
	be.PutUint64(ip[8:], low)
	be.PutUint32(ip[16:], to)
}

func (d *Datagram) putIPv6(ip []byte, payload int) {
	next := uint8(wire.ProtoUDP)
	if len(d.Ext) > 0 {
		next = d.NextHeader
		if &d.Ext[0] != &ip[wire.IPv6Size] {
			copy(ip[wire.IPv6Size:], d.Ext)
		}
	}
	first := ipudp.IPv6Header(d.TrafficClass, d.FlowLabel, payload, next, d.HopLimit)
	ipudp.PutIPv6((*[wire.IPv6Size]byte)(ip), first, d.Src, d.Dst)
}
