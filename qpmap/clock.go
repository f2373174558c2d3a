package qpmap

import "time"

// A clock measures the time between packets, in nanoseconds, and never goes
// back. Time that jumps back by up to limit stands still until it has caught
// up: packets of several queues come a little out of order. Beyond that the
// clock goes on from the new time.
type clock struct {
	ticks int64
	last  time.Time // the latest time seen, and what ticks stands for
	limit time.Duration
}

func (c *clock) set(now time.Time) {
	switch d := now.Sub(c.last); {
	case c.last.IsZero() || d < -c.limit:
		c.last = now
	case d > 0:
		c.ticks += int64(d)
		c.last = now
	}
}

// time returns when the clock stood at ticks.
func (c *clock) time(ticks int64) time.Time { return c.last.Add(time.Duration(ticks - c.ticks)) }
