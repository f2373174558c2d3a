package rocev2

import (
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// headerLen is the length of the IP header with its options or extension
// headers.
func (d *Datagram) headerLen() int {
	if d.Src.Is4() {
		return 20 + len(d.Ext)
	}
	return 40 + len(d.Ext)
}

// AppendBinary appends the IP packet: IP header, Ext, UDP header and Data. All
// lengths and the IPv4 header checksum are computed, the UDP checksum as well
// unless Checksum is 0. To send a frame append the Ethernet header first. b must
// not overlap the octets that d aliases.
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

// appendHeaders appends the IP header, Ext, a UDP header with checksum 0, and
// room for n octets of data.
func (d *Datagram) appendHeaders(b []byte, n int) ([]byte, error) {
	size := d.headerLen()
	if err := d.check(size + 8 + n); err != nil {
		return b, err
	}
	udp := len(b) + size
	out := slices.Grow(b, size+8+n)[:udp+8]
	ip := out[len(b):udp]
	if d.Src.Is4() {
		d.putIPv4(ip, uint16(size+8+n))
	} else {
		d.putIPv6(ip, uint16(size-40+8+n))
	}
	be.PutUint64(out[udp:], uint64(d.SrcPort)<<48|uint64(d.DstPort)<<32|uint64(8+n)<<16)
	return out, nil
}

// check returns why d cannot be a packet of n octets, or nil.
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
		case n-40 > 0xFFFF:
			return wireerr.TooLong
		}
		if len(d.Ext) > 0 {
			next, end, _, _ := wire.SkipExtensions(d.Ext, 0, d.NextHeader)
			if next != protoUDP || end != len(d.Ext) {
				return errExtRange
			}
		}
	default:
		return wireerr.Addresses
	}
	return nil
}

func (d *Datagram) putIPv4(ip []byte, total uint16) {
	first := uint64(4<<4|len(ip)/4)<<56 | uint64(d.TrafficClass)<<48 | uint64(total)<<32 | uint64(d.ID)<<16 |
		uint64(d.Flags)<<13
	third := uint32(d.HopLimit)<<24 | protoUDP<<16
	src, dst := d.Src.As4(), d.Dst.As4()
	from, to := be.Uint32(src[:]), be.Uint32(dst[:])
	checksum := ^ipudp.Fold(ipudp.Sum(first>>32+first&0xFFFFFFFF+uint64(third)+uint64(from)+uint64(to), d.Ext))
	be.PutUint64(ip, first)
	be.PutUint32(ip[8:], third|uint32(checksum))
	be.PutUint32(ip[12:], from)
	be.PutUint32(ip[16:], to)
	copy(ip[20:], d.Ext)
}

func (d *Datagram) putIPv6(ip []byte, payload uint16) {
	next := uint8(protoUDP)
	if len(d.Ext) > 0 {
		next = d.NextHeader
		if &d.Ext[0] != &ip[40] {
			copy(ip[40:], d.Ext)
		}
	}
	be.PutUint64(ip, 6<<60|uint64(d.TrafficClass)<<52|uint64(d.FlowLabel)<<32|
		uint64(payload)<<16|uint64(next)<<8|uint64(d.HopLimit))
	putIPv6Addr((*[16]byte)(ip[8:]), d.Src)
	putIPv6Addr((*[16]byte)(ip[24:]), d.Dst)
}

// putIPv6Addr writes an address in two halves. The array that As16 returns
// would be copied as a whole, which has to wait until both halves have reached
// memory.
func putIPv6Addr(b *[16]byte, a netip.Addr) {
	octets := a.AsSlice()
	be.PutUint64(b[:8], be.Uint64(octets))
	be.PutUint64(b[8:], be.Uint64(octets[8:]))
}
