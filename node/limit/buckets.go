package limit

import (
	"time"

	"github.com/rocecn/rocecn/internal/flowtable"
)

// Buckets are a [Bucket] for each of many keys, all of one Rate. Keys must be well
// distributed, such as seeded hashes of addresses.
//
// Their memory is fixed: 24 octets a key, in sets of four keys. A fifth key in a set
// evicts the fullest bucket, which starts full when its key returns. So a key may get
// more than its rate, but never less. If the sum matters, use a Bucket as well.
//
// Nil Buckets set no limit.
type Buckets struct {
	perSecond float64
	full      float64
	clock     clock
	sets      flowtable.Sets[bucketOf]
}

type bucketOf struct {
	key uint64 // 0: free
	content
}

// NewBuckets returns Buckets for this many keys at once, rounded up to a power of
// two and to 4 at least; nil if the Rate sets no limit. It allocates all memory
// that they will ever use.
func NewBuckets(r Rate, maxKeys int) *Buckets {
	if !r.limited() {
		return nil
	}
	return &Buckets{perSecond: r.PerSecond, full: r.full(), sets: flowtable.NewSets[bucketOf](maxKeys)}
}

// Ready says whether a packet of this key may be sent at this time.
func (b *Buckets) Ready(key uint64, now time.Time) bool {
	if b == nil {
		return true
	}
	at := b.clock.at(now)
	key, set := b.sets.Find(key)
	for i := range set {
		if set[i].key == key {
			return set[i].fill(at, b.perSecond, b.full) >= packet
		}
	}
	return true
}

// Take takes one packet out of the key's bucket; an empty one stays empty.
func (b *Buckets) Take(key uint64, now time.Time) {
	if b == nil {
		return
	}
	at := b.clock.at(now)
	key, set := b.sets.Find(key)
	fullest, highest := 0, 0.0
	for i := range set {
		s := &set[i]
		if s.key == 0 {
			*s = bucketOf{key, content{b.full, at}}
		}
		level := s.fill(at, b.perSecond, b.full)
		if s.key == key {
			s.content = content{max(level-packet, 0), at}
			return
		}
		if level > highest {
			fullest, highest = i, level
		}
	}
	set[fullest] = bucketOf{key, content{b.full - packet, at}}
}
