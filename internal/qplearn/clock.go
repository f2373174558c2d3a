package qplearn

import "time"

// A clock measures the time between packets, in nanoseconds, and never goes
// back. Where time jumps back by up to a second, as packets of several queues
// come a little out of order, the clock stands still until time has caught up.
// Beyond that it goes on from the new time.
type clock struct {
	ticks int64
	last  time.Time     // the time at ticks
	pace  time.Duration // the shortest time between recent packets; 0 not known
}

func (c *clock) set(now time.Time) {
	switch d := now.Sub(c.last); {
	case c.last.IsZero() || d < -time.Second:
		c.last = now
	case d > 0:
		c.ticks += int64(d)
		c.last = now
		if c.pace == 0 || d < c.pace {
			c.pace = d
		} else {
			c.pace = min(d, c.pace+c.pace/4+1)
		}
	}
}

// answerTime returns the longest time from a request to its response: a second,
// or up to a minute where packets are seconds apart, as in a sampled capture.
func (c *clock) answerTime() time.Duration {
	return min(max(16*c.pace, time.Second), time.Minute)
}

// time returns when the clock stood at ticks.
func (c *clock) time(ticks int64) time.Time { return c.last.Add(time.Duration(ticks - c.ticks)) }

// ticksAt returns where the clock stood, or will stand, at a time. A clock that was
// never set begins there; one that is behind goes on to it.
func (c *clock) ticksAt(t time.Time) int64 {
	d := t.Sub(c.last)
	switch {
	case c.last.IsZero():
		c.last, d = t, 0
	case d > 0:
		c.ticks, c.last, d = c.ticks+int64(d), t, 0
	}
	return c.ticks + int64(d)
}
