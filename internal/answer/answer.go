// Package answer appends the packets with opcode 0x81 that answer a packet: CNP,
// Fast CNP and PPFC notification. It also puts a message of any kind into the IP
// packet that a [rocev2.Carriage] describes.
package answer

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/crc"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

var be = binary.BigEndian

// An Answer is the octets between the UDP header and the ICRC: the BTH and the headers and payload
// after it, in words of 64 bits. If Len is not a multiple of 8, the lower half of the last word is
// not used.
type Answer struct {
	Octets [5]uint64
	Len    int // 24, 28 or 36
}

// To makes a, which must be zero, the CNP that answers p and names this queue pair. It returns the
// errors of [rocev2.Packet.MayAnswer], except that innerSource permits a packet in a tunnel.
func (a *Answer) To(p *rocev2.Packet, destQP uint32, innerSource bool) error {
	if err := p.MayAnswer(); err != nil && !(innerSource && err == rocev2.ErrTunnelled) {
		return err
	}
	if destQP > 0xFFFFFF {
		return wireerr.DestQP
	}
	const becn = 1 << 30 // in octets 4 to 7 of the BTH
	a.Octets[0] = uint64(bth.CNP)<<56 | uint64(PKey(p.BTH.PKey))<<32 | becn | uint64(destQP)
	a.Len = bth.Size + 16
	return nil
}

// Append appends the RoCEv2 packet from src to dst, both IPv4 or both IPv6, with
// the answer and the ICRC. A [rocev2.Datagram] would append the same in
// nearly twice the time. ext is the length of a Destination Options header that
// the caller has already written to the free capacity of b, at its place in the
// packet; 0 for none.
//
// It returns rocev2.ErrNotReachable for addresses that other hosts cannot reach, and an error for
// addresses of different families.
func (a *Answer) Append(b []byte, src, dst *netip.Addr, ext int, c *rocev2.Carriage, coverage icrc.Coverage) ([]byte,
	error) {
	class, hopLimit, err := IPFields(c)
	if err != nil {
		return b, err
	}
	n := wire.UDPSize + a.Len + wire.ICRCSize       // from the UDP header on
	words := a.Octets[3 : (a.Len+wire.ICRCSize)>>3] // the first three are there in any case

	// All stores are 64 bits wide, at multiples of 8 octets from the start. The
	// ICRC loads words of the same width, so no load has to wait until a store
	// has reached the cache.
	var out, ip []byte
	udp := wire.IPv6Size + ext
	switch {
	case src.Is6() && dst.Is6():
		from1, from2 := ipudp.Halves(src)
		to1, to2 := ipudp.Halves(dst)
		if !ipudp.Reachable6(from1, from2) || !ipudp.Reachable6(to1, to2) {
			return b, rocev2.ErrNotReachable
		}
		next := uint8(wire.ProtoUDP)
		if ext > 0 {
			next = wire.ProtoDestinationOptions
		}
		out = slices.Grow(b, udp+n)[:len(b)+udp+n]
		ip = out[len(b):]
		h := (*[40]byte)(ip)
		be.PutUint64(h[:], ipudp.IPv6Header(class, c.FlowLabel, ext+n, next, hopLimit))
		be.PutUint64(h[8:], from1)
		be.PutUint64(h[16:], from2)
		be.PutUint64(h[24:], to1)
		be.PutUint64(h[32:], to2)
		port := c.SrcPort
		if port == 0 {
			port = sourcePort6(from1, from2, to1, to2)
		}
		d := (*[32]byte)(ip[udp:])
		be.PutUint64(d[:], ipudp.UDPHeader(port, rocev2.Port, n))
		be.PutUint64(d[8:], a.Octets[0])
		be.PutUint64(d[16:], a.Octets[1])
		be.PutUint64(d[24:], a.Octets[2])
		for i, w := range words {
			be.PutUint64(ip[udp+32+8*i:], w)
		}
	case src.Is4() && dst.Is4():
		s, d := src.As4(), dst.As4()
		from, to := be.Uint32(s[:]), be.Uint32(d[:])
		if !ipudp.Reachable4(from) || !ipudp.Reachable4(to) {
			return b, rocev2.ErrNotReachable
		}
		udp = wire.IPv4Size
		out = slices.Grow(b, udp+n)[:len(b)+udp+n]
		ip = out[len(b):]
		fragment := uint32(c.ID) << 16
		if !c.MayFragment {
			fragment |= wire.DontFragment
		}
		high, low := ipudp.IPv4Header(ipudp.IPv4First(udp, udp+n, class), fragment, hopLimit, from, to, 0)
		port := c.SrcPort
		if port == 0 {
			port = sourcePort4(from, to)
		}
		header := ipudp.UDPHeader(port, rocev2.Port, n)
		h := (*[48]byte)(ip)
		be.PutUint64(h[:], high)
		be.PutUint64(h[8:], low)
		be.PutUint64(h[16:], uint64(to)<<32|header>>32)
		be.PutUint64(h[24:], header<<32|a.Octets[0]>>32)
		be.PutUint64(h[32:], a.Octets[0]<<32|a.Octets[1]>>32)
		be.PutUint64(h[40:], a.Octets[1]<<32|a.Octets[2]>>32)
		rest, half := ip[48:], a.Octets[2]
		for _, w := range words {
			be.PutUint64(rest, half<<32|w>>32)
			rest, half = rest[8:], w
		}
		be.PutUint32(rest, uint32(half)) // the ICRC overwrites or follows it
	case rocev2.CheckAnswerable(*src) != nil || rocev2.CheckAnswerable(*dst) != nil:
		return b, rocev2.ErrNotReachable
	default:
		return b, wireerr.Addresses
	}
	if coverage == icrc.AsSent {
		crc.Write(ip, udp) // the positions of the headers are known here
	} else if err := icrc.Write(ip, coverage); err != nil {
		return b, err
	}
	if c.Checksum {
		ipudp.PutChecksum(ip, udp) // after the ICRC, which it covers; the ICRC masks the checksum field
	}
	return out, nil
}
