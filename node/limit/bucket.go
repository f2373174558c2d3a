// Package limit has rate limits: a [Bucket] for all packets together, [Buckets] for
// each of many keys, and an [Every] for the shortest time between two packets of the
// same key.
//
// Ready says whether a packet may be sent, and Take charges it once it was sent. So a
// packet that another limit refuses, or that cannot be built, is not charged.
//
// The time is an argument, and may jump back. After a step back of up to a second the
// time of a limit stands still until the argument has caught up. So clocks that
// differ a little, such as those of two capture queues, do not let more packets pass
// than one of them alone. After a larger step a limit continues from the new time
// with what it had.
// The zero Time, of a packet whose time is not known, stands for the latest time.
//
// Nothing here is safe for concurrent use: use one instance for each core.
package limit

import (
	"math"
	"time"
)

// A Rate is how many packets may be sent. The zero Rate sets no limit.
type Rate struct {
	PerSecond float64 // packets a second on average; 0, negative, infinite and NaN set no limit
	Burst     int     // packets at once, after a pause; 0 and below stand for 1
}

// limited says whether the rate is a limit.
func (r Rate) limited() bool { return r.PerSecond > 0 && !math.IsInf(r.PerSecond, 1) }

// full is what a bucket of this rate holds, in billionths of a packet.
func (r Rate) full() float64 { return packet * float64(max(r.Burst, 1)) }

// A Bucket is a token bucket: it holds Burst packets, starts full, and fills at
// the Rate. A nil Bucket sets no limit.
type Bucket struct {
	perSecond float64
	full      float64
	clock     clock
	content   content
}

// content is what is in a bucket.
type content struct {
	level float64 // in billionths of a packet
	at    int64   // the time of this level, in the clock's nanoseconds
}

// packet is one packet in the unit of levels: in a nanosecond a bucket fills by
// PerSecond units. So whole rates give whole numbers, and nothing is rounded.
const packet = 1e9

// NewBucket returns a full Bucket, nil where the Rate sets no limit.
func NewBucket(r Rate) *Bucket {
	if !r.limited() {
		return nil
	}
	return &Bucket{perSecond: r.PerSecond, full: r.full(), content: content{level: r.full()}}
}

// Ready says whether a packet may be sent at this time.
func (b *Bucket) Ready(now time.Time) bool {
	return b == nil || b.content.fill(b.clock.at(now), b.perSecond, b.full) >= packet
}

// Take takes one packet out of the bucket; an empty one stays empty.
func (b *Bucket) Take(now time.Time) {
	if b == nil {
		return
	}
	at := b.clock.at(now)
	b.content = content{level: max(b.content.fill(at, b.perSecond, b.full)-packet, 0), at: at}
}

// fill returns the level at this time. Where the clock has been set back, the
// bucket fills from there on.
func (c *content) fill(at int64, perSecond, full float64) float64 {
	past := at - c.at
	if past < 0 {
		c.at, past = at, 0
	}
	return min(full, c.level+perSecond*float64(past))
}
