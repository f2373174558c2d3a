package ipudp

import (
	"encoding/binary"
	"math/bits"

	"github.com/rocecn/rocecn/internal/wire"
)

var be = binary.BigEndian

// PutChecksum sets the checksum (RFC 768, RFC 8200 section 8.1) in the UDP header at ip[udp:],
// which must be 0 before. The IP packet ends with its UDP data. The pseudo-header has the final
// destination: with a type 4 Routing header and Segments Left other than 0 that is Segment List[0].
func PutChecksum(ip []byte, udp int) {
	c := ^Fold(DatagramSum(ip, udp))
	if c == 0 { // 0 on the wire stands for no checksum
		c = 0xFFFF
	}
	be.PutUint16(ip[udp+6:], c)
}

// DatagramSum returns the sum of pseudo-header, UDP header and data of such a
// packet.
func DatagramSum(ip []byte, udp int) uint64 {
	datagram := ip[udp:]
	s := uint64(len(datagram)) + wire.ProtoUDP
	switch {
	case !wire.IsIPv6(ip):
		s = Sum(s, ip[12:20])
	case udp == 40:
		s = Sum(s, ip[8:40])
	default:
		s = Sum(Sum(s, ip[8:24]), FinalDestination(ip, udp))
	}
	return Sum(s, datagram)
}

// FinalDestination returns the final destination of the IPv6 packet.
func FinalDestination(ip []byte, udp int) []byte {
	if final, _ := wire.FinalSegment(ip[6], ip[40:udp]); final != nil {
		return final
	}
	return ip[24:40]
}

// Sum adds the 16-bit words of b to s (RFC 1071), which must be below 2^40; a
// last odd octet is the high half of a word. It adds 64 bits at a time and
// feeds each carry back at the low end, which gives the same modulo 65535.
func Sum(s uint64, b []byte) uint64 {
	if len(b) >= 128 {
		s, b = sumLong(s, b)
	}
	var carry uint64
	for ; len(b) >= 32; b = b[32:] {
		s, carry = bits.Add64(s, be.Uint64(b), carry)
		s, carry = bits.Add64(s, be.Uint64(b[8:]), carry)
		s, carry = bits.Add64(s, be.Uint64(b[16:]), carry)
		s, carry = bits.Add64(s, be.Uint64(b[24:]), carry)
	}
	for ; len(b) >= 8; b = b[8:] {
		s, carry = bits.Add64(s, be.Uint64(b), carry)
	}
	s = s>>32 + s&0xFFFFFFFF + carry
	if len(b) >= 4 {
		s += uint64(be.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		s += uint64(be.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		s += uint64(b[0]) << 8
	}
	return s
}

// sumLong is Sum for all of b but the last 63 octets or fewer, which it returns. Each addition has to wait for the
// carry of the one before; two sums beside each other wait at the same time, which takes a third less.
func sumLong(s uint64, b []byte) (sum uint64, rest []byte) {
	var carry, other, otherCarry uint64
	for ; len(b) >= 64; b = b[64:] {
		w := (*[64]byte)(b)
		s, carry = bits.Add64(s, be.Uint64(w[:]), carry)
		s, carry = bits.Add64(s, be.Uint64(w[8:]), carry)
		s, carry = bits.Add64(s, be.Uint64(w[16:]), carry)
		s, carry = bits.Add64(s, be.Uint64(w[24:]), carry)
		other, otherCarry = bits.Add64(other, be.Uint64(w[32:]), otherCarry)
		other, otherCarry = bits.Add64(other, be.Uint64(w[40:]), otherCarry)
		other, otherCarry = bits.Add64(other, be.Uint64(w[48:]), otherCarry)
		other, otherCarry = bits.Add64(other, be.Uint64(w[56:]), otherCarry)
	}
	s, carry = bits.Add64(s, other, carry)
	return s>>32 + s&0xFFFFFFFF + carry + otherCarry, b
}

// Fold reduces a sum to 16 bits. A word plus the same word with its halves swapped
// has the sum of the halves in its upper half, the carry added at the low end.
func Fold(s uint64) uint16 {
	s += bits.RotateLeft64(s, 32)
	half := uint32(s >> 32)
	half += bits.RotateLeft32(half, 16)
	return uint16(half >> 16)
}
