// Package crc computes the register of CRC-32 after a packet in which the fields that the invariant
// CRC of RoCEv2 does not cover are replaced by ones. Package icrc finds the headers of a packet;
// code that has just built a packet knows their positions and calls Write.
package crc

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/rocecn/rocecn/internal/wire"
)

var le = binary.LittleEndian

// An Implementation computes the register: tablesOnly, or one of those in the file of the architecture. All return the
// same register. Use is the selected one; tests and benchmarks select each in turn.
type Implementation uint8

const tablesOnly Implementation = 0

// Lengths in octets.
const (
	fixedLen = 8 + 12 // UDP header and BTH
)

// The CRC register after the eight octets of 0xFF, and after these and the
// first word of an IPv6 packet, of which all but the version is masked.
const (
	prefixed     = 0xDEBB20E3
	prefixedIPv6 = 0xF926E1D1
)

// slicing[n][v] is the register, from 0, after octet v and n octets of zero:
// 16 KB, built at start-up in some 10 µs. It is a pointer because indexed
// loads from a register take one instruction less than from a symbol.
var slicing = newTables()

type tables [16][256]uint32

func newTables() *tables {
	t := new(tables)
	for v := range t[0] {
		r := uint32(v)
		for range 8 {
			r = r>>1 ^ crc32.IEEE&-(r&1)
		}
		t[0][v] = r
	}
	for n := 1; n < len(t); n++ {
		for v, r := range t[n-1] {
			t[n][v] = r>>8 ^ t[0][uint8(r)]
		}
	}
	return t
}

// A mask has the bits that read as ones in the first 64 of some octets,
// between 64 octets of zero: loads at any shift against the octets stay inside.
type mask [3 * 64]byte

// The masks of the IP header and of the headers after it.
var (
	maskIPv4 = mask{64 + 1: 0xFF, 64 + 8: 0xFF, 64 + 10: 0xFF, 64 + 11: 0xFF}
	maskIPv6 = mask{64: 0x0F, 64 + 1: 0xFF, 64 + 2: 0xFF, 64 + 3: 0xFF, 64 + 7: 0xFF}
	maskUDP  = mask{64 + 6: 0xFF, 64 + 7: 0xFF, 64 + 12: 0xFF} // with the BTH

	maskNothing mask
)

// maskOf returns the mask of an IP header.
func maskOf(ip []byte) *mask {
	if wire.IsIPv6(ip) {
		return &maskIPv6
	}
	return &maskIPv4
}

// Write writes the ICRC into an IP packet that has just been built, all lengths right:
// ip[udp:] is its UDP header, BTH and all that follows, and ends with the ICRC.
// Options and extension headers are covered as they are.
func Write(ip []byte, udp int) {
	end := len(ip) - wire.ICRCSize
	le.PutUint32(ip[end:], ^stored(ip[:end], udp))
}

// packet returns the register after an IP packet with its UDP header at b[udp:].
func packet(b []byte, udp int) uint32 {
	if udp == wire.FixedSize(b) {
		return Plain(b)
	}
	return Extended(b, udp)
}

// inParts is Extended in two passes, one for each mask.
func inParts(b []byte, udp int) uint32 { return UDP(IP(b[:udp]), b[udp:]) }

// IP returns the register after an IP header, options and extension headers
// included if they are there.
func IP(header []byte) uint32 { return update(prefixed, header, maskOf(header)) }

// UDP returns the register r after a UDP header and the octets after it.
func UDP(r uint32, b []byte) uint32 { return update(r, b, &maskUDP) }

// Step returns the register r after the 16 octets v and w, the least significant
// octets first.
func Step(r uint32, v, w uint64) uint32 { return slicing.step(r, v, w) }

// Word returns the register, from 0, after the 4 octets v, the least significant
// octet first.
func Word(v uint32) uint32 { return slicing.word(v) }

// plainTables returns the register after the octets that the ICRC of a packet
// without options and extension headers covers. It could be updateTables with
// a mask, but with masks that are constants a CNP takes 20 ns, not 36.
func plainTables(b []byte) uint32 {
	t, r := slicing, uint32(0)
	if wire.IsIPv6(b) {
		h := (*[wire.IPv6Size + fixedLen]byte)(b)
		r = t.half(prefixedIPv6 ^ (le.Uint64(h[4:]) | 0xFF000000))
		r = t.step(r, le.Uint64(h[12:]), le.Uint64(h[20:]))
		r = t.step(r, le.Uint64(h[28:]), le.Uint64(h[36:]))
		r = t.step(r, le.Uint64(h[44:])|0xFFFF0000, le.Uint64(h[52:])|0xFF)
		b = b[len(h):]
	} else {
		h := (*[wire.IPv4Size + fixedLen]byte)(b)
		r = t.half(prefixed ^ (le.Uint64(h[:]) | 0xFF00))
		r = t.step(r, le.Uint64(h[8:])|0xFFFF00FF, le.Uint64(h[16:]))
		r = t.step(r, le.Uint64(h[24:])|0xFFFF0000, le.Uint64(h[32:])|0xFF)
		b = b[len(h):]
	}
	if len(b) == 16 && le.Uint64(b)|le.Uint64(b[8:]) == 0 { // a CNP: step(r, 0, 0)
		return t[12][r>>24] ^ t[13][uint8(r>>16)] ^ t[14][uint8(r>>8)] ^ t[15][uint8(r)]
	}
	return t.update(r, b, zeros)
}

// updateTables returns the register r after b, masked.
func updateTables(r uint32, b []byte, m *mask) uint32 {
	if m == &maskNothing {
		return slicing.update(r, b, zeros)
	}
	return slicing.update(r, b, m[64:])
}

// zeros is the end of every mask.
var zeros = maskNothing[:64]

// update returns the register r after b, masked by m except for the last 64 octets of m, which are
// zero. The octets that lie 64 or more after the last masked one go to hash/crc32 as far as their
// number is a multiple of 16, for which it is fast.
func (t *tables) update(r uint32, b, m []byte) uint32 {
	for ; len(b)&3 != 0; b, m = b[1:], m[1:] {
		r = r>>8 ^ t[0][uint8(r)^(b[0]|m[0])]
	}
	if len(b)&4 != 0 {
		r = t.word(r ^ (le.Uint32(b) | le.Uint32(m)))
		b, m = b[4:], m[4:]
	}
	if len(b)&8 != 0 {
		r = t.half(uint64(r) ^ (le.Uint64(b) | le.Uint64(m)))
		b, m = b[8:], m[8:]
	}
	for len(b) >= 16 {
		if len(m) <= 64 && len(b) >= 64 {
			return ^crc32.Update(^r, crc32.IEEETable, b)
		}
		h := (*[16]byte)(m)
		r = t.step(r, le.Uint64(b)|le.Uint64(h[:]), le.Uint64(b[8:])|le.Uint64(h[8:]))
		b, m = b[16:], m[16:]
	}
	return r
}

// step returns the register r after the 16 octets v and w. The terms that depend on r come last, so
// that the other look-ups need not wait for the previous step.
func (t *tables) step(r uint32, v, w uint64) uint32 {
	s := t[0][w>>56] ^ t[1][uint8(w>>48)] ^ t[2][uint8(w>>40)] ^ t[3][uint8(w>>32)] ^
		t[4][uint8(w>>24)] ^ t[5][uint8(w>>16)] ^ t[6][uint8(w>>8)] ^ t[7][uint8(w)] ^
		t[8][v>>56] ^ t[9][uint8(v>>48)] ^ t[10][uint8(v>>40)] ^ t[11][uint8(v>>32)]
	r ^= uint32(v)
	return s ^ t[12][r>>24] ^ t[13][uint8(r>>16)] ^ t[14][uint8(r>>8)] ^ t[15][uint8(r)]
}

// half returns the register after 8 octets to which it was added.
func (t *tables) half(v uint64) uint32 {
	return t[0][v>>56] ^ t[1][uint8(v>>48)] ^ t[2][uint8(v>>40)] ^ t[3][uint8(v>>32)] ^
		t[4][uint8(v>>24)] ^ t[5][uint8(v>>16)] ^ t[6][uint8(v>>8)] ^ t[7][uint8(v)]
}

// word returns the register after 4 octets to which it was added.
func (t *tables) word(v uint32) uint32 {
	return t[0][v>>24] ^ t[1][uint8(v>>16)] ^ t[2][uint8(v>>8)] ^ t[3][uint8(v)]
}
