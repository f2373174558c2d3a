package crc

import (
	"hash/crc32"

	"github.com/rocecn/rocecn/internal/wire"
)

const (
	folding     = tablesOnly + 1 + iota // carry-less multiplication of 128 bits: SSE4.1, PCLMULQDQ
	folding256                          // of 256: also AVX2, VPCLMULQDQ
	wideFolding                         // of 512: also AVX512F, AVX512BW, AVX512_VBMI2
)

// Use is the fastest implementation of this CPU.
var Use = fastest()

// fastest returns the fastest method that the CPU, and where needed the operating system, supports.
func fastest() Implementation

// shortMax is the largest number of octets for foldShort: it has no chain of multiplications to
// wait for, but needs more of them than foldLong.
const shortMax = 256

// folds[n] moves a block of 128 bits over n words of 32 bits: the bits of x^(32n+32) mod P for its
// lower 64 bits and of x^(32n-32) mod P for the upper 64, reflected and shifted left by one.
// folds[0] is not used, because a block that is moved over no word does not change.
//
//lint:ignore U1000 the assembly uses it
var folds = newFolds()

func newFolds() (f [shortMax / 4][2]uint64) {
	var powers [len(f) + 1]uint64 // x^32n
	r := uint32(1) << 31          // 1
	for n := range powers {
		powers[n] = uint64(r) << 1
		for range 32 {
			r = r>>1 ^ crc32.IEEE&-(r&1)
		}
	}
	for n := 1; n < len(f); n++ {
		f[n] = [2]uint64{powers[n+1], powers[n-1]}
	}
	return f
}

// shadow is the mask of UDP and BTH between enough zero octets that it can be laid over a packet
// with its UDP header at any position.
var shadow = func() (s [shortMax + shortMax + 16]byte) {
	copy(s[shortMax:], maskUDP[64:64+fixedLen])
	return s
}()

// Plain returns the register after an IP packet without options and extension
// headers, up to the ICRC.
func Plain(b []byte) uint32 {
	switch {
	case Use == tablesOnly || len(b)&3 != 0:
		return plainTables(b)
	case Use < wideFolding && len(b) < 64:
		return foldShort(prefixed, b, maskOf(b), &shadow[shortMax-wire.FixedSize(b)])
	case wire.IsIPv6(b):
		return long(prefixed, b, &maskPlainIPv6)
	default:
		return long(prefixed, b, &maskPlainIPv4)
	}
}

// stored is packet for one that has just been stored, 8 octets at a time:
// foldShort need not wait for them to reach the cache.
func stored(b []byte, udp int) uint32 {
	if isShort(b) {
		return foldShort(prefixed, b, maskOf(b), &shadow[shortMax-udp])
	}
	return packet(b, udp)
}

// Extended returns the register, up to the ICRC, after an IP packet with options or extension
// headers and its UDP header at b[udp:]. It reads a short packet once instead of twice.
func Extended(b []byte, udp int) uint32 {
	if isShort(b) {
		return foldShort(prefixed, b, maskOf(b), &shadow[shortMax-udp])
	}
	return inParts(b, udp)
}

// isShort reports whether foldShort accepts a packet.
func isShort(b []byte) bool { return Use != tablesOnly && len(b)&3 == 0 && len(b) <= shortMax }

// update is updateTables, faster where it can.
func update(r uint32, b []byte, m *mask) uint32 {
	switch {
	case Use == tablesOnly || len(b)&3 != 0:
		return updateTables(r, b, m)
	case Use < wideFolding && len(b) <= shortMax:
		return foldShort(r, b, m, &shadow[0])
	default:
		return long(r, b, m)
	}
}

// foldShort is updateTables for 16 to shortMax octets, a multiple of 4. Of m it
// uses the first 16 octets. udp points into shadow: the octets there mask, too.
//
//go:noescape
func foldShort(r uint32, b []byte, m *mask, udp *byte) uint32

// long is updateTables for any multiple of 4 octets, but of 64 at least where
// wideFolding is not used.
//
//go:noescape
func long(r uint32, b []byte, m *mask) uint32

// foldLong is long without wideFolding.
//
//lint:ignore U1000 long jumps to it
//go:noescape
func foldLong(r uint32, b []byte, m *mask) uint32
