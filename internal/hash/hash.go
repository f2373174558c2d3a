// Package hash is what the hashes of addresses, flows and packets are made of.
package hash

import (
	"encoding/binary"
	"math/bits"
)

var le = binary.LittleEndian

// Mix folds the 128-bit product of two words, as wyhash does. It is 0 where one
// of them is, whatever the other says.
func Mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// Addresses returns a hash of two addresses in this order. The seed is in both
// factors: who does not know it cannot make one of them 0, and hide the other.
func Addresses(src, dst *[16]byte, seed uint64) uint64 {
	seed ^= 0xA0761D6478BD642F
	other := seed>>32 | seed<<32
	h := Mix(le.Uint64(src[:])^seed, le.Uint64(src[8:])^other)
	return Mix(h^le.Uint64(dst[:]), le.Uint64(dst[8:])^other)
}
