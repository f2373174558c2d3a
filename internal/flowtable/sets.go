package flowtable

import "math/bits"

// Sets are a table of fixed size with four entries in each set. Where a fifth key comes into a set, its user
// chooses which entry makes room for it.
type Sets[E any] struct {
	All   [][4]E
	shift uint8 // what of a mixed key is no number of a set
}

// NewSets returns a table for this many keys, rounded up to a power of two and to 4 at least.
func NewSets[E any](keys int) Sets[E] {
	order := bits.Len(uint(max(keys, 4)-1)) - 2
	return Sets[E]{All: make([][4]E, 1<<order), shift: uint8(64 - order)}
}

// Find returns the key as it is to be kept, never 0, which so stands for a free entry, and its set. Keys spread
// well, as hashes of flows do.
func (s *Sets[E]) Find(key uint64) (uint64, *[4]E) {
	if key == 0 {
		key = 1
	}
	return key, &s.All[key*0x9E3779B97F4A7C15>>s.shift] // the multiplier of Fibonacci hashing
}
