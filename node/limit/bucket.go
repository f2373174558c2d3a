// Package limit holds rates: a [Bucket] for a sum of packets, an [Every] for
// the least time between two packets of the same key.
//
// Both are asked first and told afterwards: Ready says whether a packet may be
// sent, Take that it was. So a packet that another limit refuses, or that cannot
// be built, takes nothing.
//
// The time is an argument, and may jump back. Nothing here is safe for
// concurrent use: one instance a core.
package limit

import (
	"math"
	"time"
)

// A Rate is how many packets may be sent. The zero Rate sets no limit.
type Rate struct {
	PerSecond float64 // in the long run; 0, and what is no positive finite number, sets no limit
	Burst     int     // at once, after a pause; 0 and below stand for 1
}

// A Bucket is a token bucket: it holds Burst packets, starts full, and fills at
// the Rate. A nil Bucket sets no limit.
type Bucket struct {
	perSecond float64
	full      float64   // in billionths of a packet, as level is
	level     float64   // at the time last
	last      time.Time // the zero time before the first packet
}

// packet is one packet in the unit of level: a nanosecond fills in PerSecond of
// it. With that unit whole rates make whole numbers, and nothing is rounded.
const packet = 1e9

// NewBucket returns a full Bucket.
func NewBucket(r Rate) *Bucket {
	if !(r.PerSecond > 0) || math.IsInf(r.PerSecond, 1) {
		return nil
	}
	full := packet * float64(max(r.Burst, 1))
	return &Bucket{perSecond: r.PerSecond, full: full, level: full}
}

// Ready says whether a packet may be sent at this time. After a time that jumps
// back the bucket fills from there on.
func (b *Bucket) Ready(now time.Time) bool {
	return b == nil || b.at(now) >= packet
}

// Take takes one packet out of the bucket, which is not less than empty then.
func (b *Bucket) Take(now time.Time) {
	if b == nil {
		return
	}
	b.level = max(b.at(now)-packet, 0)
	b.last = now
}

// at returns the level at this time.
func (b *Bucket) at(now time.Time) float64 {
	if now.Before(b.last) {
		b.last = now
	}
	return min(b.full, b.level+b.perSecond*float64(now.Sub(b.last)))
}
