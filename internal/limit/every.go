package limit

import (
	"time"

	"github.com/rocecn/rocecn/internal/clock"
	"github.com/rocecn/rocecn/internal/flowtable"
)

// An Every keeps packets of the same key an interval apart: it remembers when one was
// last sent. Keys must be well distributed, such as seeded hashes of flows.
//
// Its memory is fixed: 16 octets a key, in sets of four keys. A fifth key in a set
// evicts the one sent longest ago, which may then send a packet too early. No key
// ever waits longer than its interval. If the sum matters, use a [Bucket] as well.
//
// A nil Every sets no limit.
type Every struct {
	clock clock.Clock
	sets  flowtable.Sets[sent]
}

type sent struct {
	key uint64 // 0: free
	at  int64  // in the clock's ticks
}

// NewEvery returns an Every for this many keys, rounded up to a power of two and to 4 at least. It
// allocates all memory that it will ever use.
func NewEvery(maxKeys int) *Every { return &Every{sets: flowtable.NewSets[sent](maxKeys)} }

// Ready reports whether a packet of this key may be sent: the last one was sent interval ago or
// earlier. An interval of 0 is no limit.
func (e *Every) Ready(key uint64, interval time.Duration, now time.Time) bool {
	if e == nil || interval <= 0 {
		return true
	}
	at := e.clock.Ticks(now)
	key, set := e.sets.Find(key)
	for i := range set {
		if s := &set[i]; s.key == key {
			return at-s.at >= int64(interval)
		}
	}
	return true
}

// Record records that a packet of this key was sent.
func (e *Every) Record(key uint64, now time.Time) {
	if e == nil {
		return
	}
	at := e.clock.Ticks(now)
	key, set := e.sets.Find(key)
	oldest := &set[0]
	for i := range set {
		s := &set[i]
		if s.key == key || s.key == 0 {
			*s = sent{key, at}
			return
		}
		if s.at <= oldest.at {
			oldest = s
		}
	}
	*oldest = sent{key, at}
}
