package ipudp

import (
	"net/netip"

	"github.com/rocecn/rocecn/internal/wire"
)

// The functions below return headers in words, and the caller stores them. A caller that reads the packet again at
// once, as for the ICRC, stores words of the width in which it reads: a load that is wider than the stores before it
// waits until they have reached the cache.

// IPv4Header returns the first 16 octets of an IPv4 header of UDP (RFC 791, section 3.1) with its checksum. The
// destination address follows. first is the result of [IPv4First], fragment the second 32 bits: Identification, flags
// and offset. options is the [Sum] of the options, 0 without any.
func IPv4Header(first, fragment uint32, hopLimit uint8, src, dst uint32, options uint64) (high, low uint64) {
	high = uint64(first)<<32 | uint64(fragment)
	third := uint64(hopLimit)<<24 | wire.ProtoUDP<<16
	third |= uint64(^Fold(uint64(first) + uint64(fragment) + third + uint64(src) + uint64(dst) + options))
	return high, third<<32 | uint64(src)
}

// IPv4First returns the first 32 bits of an IPv4 header. size is the length of the header, length that of the packet.
func IPv4First(size, length int, class uint8) uint32 {
	return wire.IPv4<<28 | uint32(size/4)<<24 | uint32(class)<<16 | uint32(length)
}

// IPv6Header returns the first 8 octets of an IPv6 header (RFC 8200, section 3). The addresses follow. payload is the
// number of octets after the header, next the type of the next header.
func IPv6Header(class uint8, label uint32, payload int, next, hopLimit uint8) uint64 {
	return wire.IPv6<<60 | uint64(class)<<52 | uint64(label)<<32 |
		uint64(payload)<<16 | uint64(next)<<8 | uint64(hopLimit)
}

// PutIPv6 writes an IPv6 header: the result of [IPv6Header] and the addresses.
func PutIPv6(ip *[wire.IPv6Size]byte, first uint64, src, dst netip.Addr) {
	be.PutUint64(ip[:], first)
	src1, src2 := Halves(&src)
	be.PutUint64(ip[8:], src1)
	be.PutUint64(ip[16:], src2)
	dst1, dst2 := Halves(&dst)
	be.PutUint64(ip[24:], dst1)
	be.PutUint64(ip[32:], dst2)
}

// Halves returns the octets of an IPv6 address in two words. The array that As16 returns would be copied as a whole,
// which has to wait until both halves have reached memory.
func Halves(a *netip.Addr) (high, low uint64) {
	octets := a.AsSlice()
	return be.Uint64(octets), be.Uint64(octets[8:])
}

// UDPHeader returns a UDP header (RFC 768) with checksum 0. length is that of header and data.
func UDPHeader(src, dst uint16, length int) uint64 {
	return uint64(src)<<48 | uint64(dst)<<32 | uint64(length)<<16
}
