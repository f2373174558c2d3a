package limit

import (
	"math/bits"
	"time"
)

// An Every remembers when a packet of each key was sent last, so that two of
// them can be kept an interval apart. Keys are numbers that spread well, hashes
// of flows for example.
//
// Its memory is fixed: 16 octets a key, four keys to a set. Where a fifth key
// comes into a set, the one sent longest ago is forgotten, and may send one
// packet too early. That is the only fault: no key waits longer than its
// interval. A [Bucket] limits the sum where that matters.
//
// A nil Every sets no limit.
type Every struct {
	sets  [][4]sent
	shift uint8 // what of a mixed key is no number of a set
}

type sent struct {
	key uint64 // 0: free
	at  int64  // Unix time in nanoseconds; it may wrap
}

// NewEvery returns an Every for this many keys at once, rounded up to a power of
// two and to 4 at least. It allocates all memory that it will ever use.
func NewEvery(maxKeys int) *Every {
	order := bits.Len(uint(max(maxKeys, 4)-1)) - 2
	return &Every{sets: make([][4]sent, 1<<order), shift: uint8(64 - order)}
}

// Ready says whether a packet of this key may be sent: whether interval has
// passed since the last one, exactly interval being enough. After a time that
// jumps back, the interval begins there at the latest. An interval of 0 is no
// limit.
func (e *Every) Ready(key uint64, interval time.Duration, now time.Time) bool {
	if e == nil || interval <= 0 {
		return true
	}
	key, set := e.find(key)
	for i := range set {
		if s := &set[i]; s.key == key {
			past := now.UnixNano() - s.at
			if past < 0 {
				s.at, past = now.UnixNano(), 0
			}
			return past >= int64(interval)
		}
	}
	return true
}

// Take says that a packet of this key was sent.
func (e *Every) Take(key uint64, now time.Time) {
	if e == nil {
		return
	}
	key, set := e.find(key)
	at := now.UnixNano()
	oldest, age := 0, uint64(0)
	for i := range set {
		s := &set[i]
		if s.key == key || s.key == 0 {
			*s = sent{key, at}
			return
		}
		// What was sent after now, before time jumped back, counts as oldest.
		if a := uint64(at - s.at); a >= age {
			oldest, age = i, a
		}
	}
	set[oldest] = sent{key, at}
}

// find returns the key as it is kept, never 0, and its set.
func (e *Every) find(key uint64) (uint64, *[4]sent) {
	if key == 0 {
		key = 1
	}
	return key, &e.sets[key*0x9E3779B97F4A7C15>>e.shift] // the multiplier of Fibonacci hashing
}
