package flowtable

import "math/bits"

// Sets are a four-way set-associative cache of fixed size: a key may be in any of the four entries of one set. When
// a fifth key arrives in a set, the caller chooses the entry to evict.
type Sets[E any] struct {
	All   [][4]E
	shift uint8 // the upper 64-shift bits of a mixed key number its set
}

// NewSets returns a table for this many keys, rounded up to a power of two and to 4 at least.
func NewSets[E any](keys int) Sets[E] {
	order := bits.Len(uint(max(keys, 4)-1)) - 2
	return Sets[E]{All: make([][4]E, 1<<order), shift: uint8(64 - order)}
}

// Find returns the key as the entry must store it, and its set. A stored key is never 0, so that 0 marks a free
// entry. The keys must be well distributed, as hashes of flows are.
func (s *Sets[E]) Find(key uint64) (uint64, *[4]E) {
	if key == 0 {
		key = 1
	}
	return key, &s.All[key*0x9E3779B97F4A7C15>>s.shift] // the multiplier of Fibonacci hashing
}
