package limit

import (
	"time"

	"github.com/rocecn/rocecn/internal/flowtable"
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
	clock clock
	sets  flowtable.Sets[sent]
}

type sent struct {
	key uint64 // 0: free
	at  int64  // in the clock's nanoseconds
}

// NewEvery returns an Every for this many keys at once, rounded up to a power of
// two and to 4 at least. It allocates all memory that it will ever use.
func NewEvery(maxKeys int) *Every { return &Every{sets: flowtable.NewSets[sent](maxKeys)} }

// Ready says whether a packet of this key may be sent: whether interval has
// passed since the last one, exactly interval being enough. Where the clock has
// been set back, the interval begins there at the latest. An interval of 0 is no
// limit.
func (e *Every) Ready(key uint64, interval time.Duration, now time.Time) bool {
	if e == nil || interval <= 0 {
		return true
	}
	at := e.clock.at(now)
	key, set := e.sets.Find(key)
	for i := range set {
		if s := &set[i]; s.key == key {
			past := at - s.at
			if past < 0 {
				s.at, past = at, 0
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
	at := e.clock.at(now)
	key, set := e.sets.Find(key)
	oldest, age := 0, uint64(0)
	for i := range set {
		s := &set[i]
		if s.key == key || s.key == 0 {
			*s = sent{key, at}
			return
		}
		// What was sent after this time, before the clock was set back, counts as oldest.
		if a := uint64(at - s.at); a >= age {
			oldest, age = i, a
		}
	}
	set[oldest] = sent{key, at}
}
