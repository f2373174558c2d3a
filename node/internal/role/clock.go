package role

import "time"

// A Clock turns the times that callers give, which may jump back, into times that never do. A step back of no more
// than Slack, as between the frames of two capture queues, is waited out; from a longer one on time goes on from
// where it was.
type Clock struct {
	Slack        int64 // in nanoseconds, as all times here
	offset, last int64
}

// At returns the time to count with.
func (c *Clock) At(now time.Time) int64 {
	t := now.UnixNano() + c.offset
	if back := c.last - t; back > c.Slack {
		c.offset += back
	}
	c.last = max(c.last, t)
	return c.last
}
