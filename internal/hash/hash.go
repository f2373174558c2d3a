// Package hash has the function of which the hashes of flows, packets and labels consist.
package hash

import "math/bits"

// Mix folds the 128-bit product of two words, as wyhash does. It is 0 if either of them is.
func Mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
