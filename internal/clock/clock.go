// Package clock is the time of limits and tables, which never goes back.
package clock

import (
	"math"
	"time"
)

// A Clock turns the times that callers give, which may jump back, into ticks, which never do: nanoseconds since the
// first time. After a step back of up to the slack, as between the frames of two capture queues whose clocks differ,
// the ticks stand still until the times have caught up. After a longer one, of a clock that was set, they go on from
// where they were. The zero Time, of a packet whose time is not known, is the time of the call before.
//
// Times before 1678 and after 2262 count as others between these years.
type Clock struct {
	Slack time.Duration // a second at least

	latest int64 // the time that stands for ticks, in nanoseconds since the zero Time; 0: none yet
	ticks  int64
}

const (
	// forever is where ticks end: half of what there is, so that a Duration can be added to any of them.
	forever = math.MaxInt64 / 2
	// zeroTime is what UnixNano returns for the zero Time.
	zeroTime = -6795364578871345152
)

// At returns the ticks at a time.
func (c *Clock) At(now time.Time) int64 {
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
