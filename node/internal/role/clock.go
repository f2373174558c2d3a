package role

import (
	"math"
	"time"
)

// A Clock turns the times that callers give, which may jump back, into times that never do. A step back of no more
// than Slack, as between the frames of two capture queues, is waited out; from a longer one on time goes on from
// where it was. The zero Time, of a packet whose time is not known, is the time of the call before.
type Clock struct {
	Slack  int64     // in nanoseconds, as all times here
	latest time.Time // the argument that stands for last
	last   int64
}

// forever is where time stands still: half of what there is, so that a Duration can be added to any time.
const forever = math.MaxInt64 / 2

// At returns the time to count with, which begins at 0.
func (c *Clock) At(now time.Time) int64 {
	if now.IsZero() {
		return c.last
	}
	step := int64(now.Sub(c.latest)) // the largest Duration where it is more
	if c.latest.IsZero() {
		step = 0
	}
	if c.latest.IsZero() || step > 0 || step < -c.Slack {
		c.latest, c.last = now, c.last+min(max(step, 0), forever-c.last)
	}
	return c.last
}
