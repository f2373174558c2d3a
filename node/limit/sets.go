package limit

import "math/bits"

// sets is a table of fixed size with four entries in each set.
type sets[E any] struct {
	all   [][4]E
	shift uint8 // what of a mixed key is no number of a set
}

// newSets returns a table for this many keys, rounded up to a power of two and to
// 4 at least.
func newSets[E any](maxKeys int) sets[E] {
	order := bits.Len(uint(max(maxKeys, 4)-1)) - 2
	return sets[E]{all: make([][4]E, 1<<order), shift: uint8(64 - order)}
}

// find returns the key as it is kept, never 0, and its set.
func (s *sets[E]) find(key uint64) (uint64, *[4]E) {
	if key == 0 {
		key = 1
	}
	return key, &s.all[key*0x9E3779B97F4A7C15>>s.shift] // the multiplier of Fibonacci hashing
}
