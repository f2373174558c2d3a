// Package clock is the time of limits and tables, which never goes back.
package clock

import (
	"math"
	"time"
)

// A Clock converts the times that callers give, which may jump back, into ticks, which never do:
// nanoseconds since the first time. After a step back of up to the slack, as between frames of two
// capture queues with different clocks, the ticks stop until the times have caught up. After a
// longer step, of a clock that was set, they continue from the current tick. The zero Time, of a
// packet with an unknown time, is the time of the previous call.
//
// Times before 1678 and after 2262 count as others between these years.
type Clock struct {
	Slack time.Duration // a second at least

	latest int64 // the time that stands for ticks, in nanoseconds since the zero Time; 0: none yet
	ticks  int64
}

const (
	// forever is the largest tick: half of the range, so that a Duration can be added to any tick.
	forever = math.MaxInt64 / 2
	// zeroTime is the value of UnixNano for the zero Time.
	zeroTime = -6795364578871345152
)

// Ticks returns the ticks at a time.
func (c *Clock) Ticks(now time.Time) int64 {
	if t := now.UnixNano() - zeroTime; t != c.latest { // several limits look at one packet
		c.move(t)
	}
	return c.ticks
}

// move sets the clock to another time than the latest.
func (c *Clock) move(t int64) {
	switch step := t - c.latest; {
	case t == 0:
	case c.latest == 0:
		c.latest = t
	case step > 0:
		c.latest, c.ticks = t, c.ticks+min(step, forever-c.ticks)
	case step < -int64(max(c.Slack, time.Second)):
		c.latest = t
	}
}

// Now returns the ticks at the time of the last call of At.
func (c *Clock) Now() int64 { return c.ticks }
