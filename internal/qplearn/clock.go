package qplearn

import "time"

// A clock measures the time between packets, in nanoseconds, and never goes
// back. Where time jumps back by up to a second, as packets of several queues
// come a little out of order, the clock stands still until time has caught up.
// Beyond that it goes on from the new time.
type clock struct {
	ticks  int64
	last   time.Time     // the time at ticks
	packet int64         // ticks of the last packet; 0 none
	pace   time.Duration // the shortest time between recent packets; 0 not known
}

// seen sets the clock to the time of a packet.
func (c *clock) seen(now time.Time) {
	c.set(now)
	d := time.Duration(c.ticks - c.packet)
	switch {
	case d == 0:
	case c.packet == 0: // the first one
	case c.pace == 0 || d < c.pace:
		c.pace = d
	default:
		c.pace = min(d, c.pace+c.pace/4+1)
	}
	c.packet = c.ticks
}

// set sets the clock to a time.
func (c *clock) set(now time.Time) {
	switch d := now.Sub(c.last); {
	case c.last.IsZero() || d < -time.Second:
		c.last = now
	case d > 0:
		c.ticks += int64(d)
		c.last = now
	}
}

// answerTime returns the longest time from a request to its response: a second,
// or up to a minute where packets are seconds apart, as in a sampled capture.
func (c *clock) answerTime() time.Duration { return min(max(16*c.pace, time.Second), time.Minute) }

// time returns when the clock stood at ticks.
func (c *clock) time(ticks int64) time.Time { return c.last.Add(time.Duration(ticks - c.ticks)) }

// ticksAt returns the tick of the clock at a past or future time. A clock that was never set begins
// at this time; a clock that is earlier continues to it.
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
