package limit

import (
	"time"

	"github.com/rocecn/rocecn/internal/clock"
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
	size
	clock clock.Clock
	sets  flowtable.Sets[bucketOf]
}

type bucketOf struct {
	key uint64 // 0: free
	content
}

// newBuckets returns Buckets for this many keys, rounded up to a power of two and to 4 at least, or
// nil if the Rate sets no limit. It allocates all memory that they will ever use.
func newBuckets(r Rate, maxKeys int) *Buckets {
	if !r.limited() {
		return nil
	}
	return &Buckets{size: r.size(), sets: flowtable.NewSets[bucketOf](maxKeys)}
}

// With returns the buckets with another rate, or nil if the rate sets no limit. They keep their
// content as [Bucket.With] does. With nil Buckets it makes new ones for this many keys.
func (b *Buckets) With(r Rate, maxKeys int) *Buckets {
	if b == nil || !r.limited() {
		return newBuckets(r, maxKeys)
	}
	was, at := b.size, b.clock.Now()
	b.size = r.size()
	for i := range b.sets.All {
		for j := range b.sets.All[i] {
			c := &b.sets.All[i][j].content
			*c = was.change(b.size, *c, at)
		}
	}
	return b
}

// Ready reports whether a packet of this key may be sent at this time.
func (b *Buckets) Ready(key uint64, now time.Time) bool {
	if b == nil {
		return true
	}
	at := b.clock.Ticks(now)
	key, set := b.sets.Find(key)
	for i := range set {
		if set[i].key == key {
			return b.filled(set[i].content, at) >= packet
		}
	}
	return true
}

// Charge takes one packet out of the key's bucket; an empty one stays empty.
func (b *Buckets) Charge(key uint64, now time.Time) {
	if b == nil {
		return
	}
	at := b.clock.Ticks(now)
	key, set := b.sets.Find(key)
	fullest, highest := 0, 0.0
	for i := range set {
		s := &set[i]
		if s.key == 0 {
			*s = bucketOf{key, content{b.full, at}}
		}
		if s.key == key {
			s.content = b.removePacket(s.content, at)
			return
		}
		if level := b.filled(s.content, at); level > highest {
			fullest, highest = i, level
		}
	}
	set[fullest] = bucketOf{key, content{b.full - packet, at}}
}
