// Package limit has rate limits: a [Bucket] for all packets together, [Buckets] for
// each of many keys, and an [Every] for the shortest time between two packets of the
// same key.
//
// Ready reports whether a packet may be sent, and Take charges it after it was sent. So a packet
// that another limit holds back, or that cannot be built, is not charged.
//
// The time is an argument, and may jump back. After a step back of up to a second the time of a
// limit stops until the argument has caught up. So clocks that differ a little, such as those of
// two capture queues, do not let more packets pass than one of them alone. After a larger step a
// limit continues from the new time with its content unchanged. The zero Time, of a packet with an
// unknown time, stands for the latest time.
//
// Nothing here is safe for concurrent use: use one instance for each core.
package limit

import (
	"math"
	"time"

	"github.com/rocecn/rocecn/internal/clock"
)

// A Rate is the permitted rate of packets; configurations have a node.Rate instead. The zero Rate
// sets no limit.
type Rate struct {
	PerSecond float64 // packets a second on average; 0, negative, infinite and NaN set no limit
	Burst     int     // packets in a row after a pause; 0 and negative values stand for 1
}

// limited reports whether the rate is a limit.
func (r Rate) limited() bool { return r.PerSecond > 0 && !math.IsInf(r.PerSecond, 1) }

// A Bucket is a token bucket: it holds Burst packets, starts full, and fills at
// the Rate. A nil Bucket sets no limit.
type Bucket struct {
	size
	clock clock.Clock
	content
}

// size is the capacity of a bucket and the rate at which it fills.
type size struct{ perSecond, full float64 }

// content is the fill level of a bucket at a time.
type content struct {
	level float64 // in billionths of a packet
	at    int64   // the time of this level, in the clock's ticks
}

// packet is one packet in the unit of levels: in a nanosecond a bucket fills by
// PerSecond units. So whole rates give whole numbers, and nothing is rounded.
const packet = 1e9

// size returns the size of a bucket of this rate.
func (r Rate) size() size { return size{r.PerSecond, packet * float64(max(r.Burst, 1))} }

// filled returns the level of a bucket at a time.
func (s size) filled(c content, at int64) float64 {
	return min(s.full, c.level+s.perSecond*float64(at-c.at))
}

// removePacket returns the bucket's content after a packet was taken out of it.
func (s size) removePacket(c content, at int64) content {
	return content{max(s.filled(c, at)-packet, 0), at}
}

// change returns the content of a bucket after its size changes at a time. A full bucket stays
// full.
func (s size) change(to size, c content, at int64) content {
	level := s.filled(c, at)
	if level == s.full {
		level = to.full
	}
	return content{min(level, to.full), at}
}

// NewBucket returns a full Bucket, nil where the Rate sets no limit.
func NewBucket(r Rate) *Bucket { return (*Bucket)(nil).With(r) }

// With returns the bucket with another rate, nil if the rate sets no limit. It keeps its content, up to the new Burst;
// one that was full is full. The new rate counts from the latest time that the bucket was given.
func (b *Bucket) With(r Rate) *Bucket {
	if !r.limited() {
		return nil
	}
	next := &Bucket{size: r.size()}
	next.content.level = next.full
	if b != nil {
		next.clock, next.content = b.clock, b.change(next.size, b.content, b.clock.Now())
	}
	return next
}

// Ready reports whether a packet may be sent at this time.
func (b *Bucket) Ready(now time.Time) bool {
	return b == nil || b.filled(b.content, b.clock.Ticks(now)) >= packet
}

// ChargeDebt takes one packet out of the bucket even if it is empty: then later packets wait longer, up to the time
// that fills the bucket.
func (b *Bucket) ChargeDebt(now time.Time) {
	if b != nil {
		at := b.clock.Ticks(now)
		b.content = content{max(b.filled(b.content, at)-packet, -b.full), at}
	}
}

// Charge takes one packet out of the bucket; an empty one stays empty.
func (b *Bucket) Charge(now time.Time) {
	if b != nil {
		b.content = b.removePacket(b.content, b.clock.Ticks(now))
	}
}
