package ingress

import "time"

// A clock turns the times that callers give, which may jump back, into times
// that never do, so that the table can keep its flows in the order in which they
// were seen. A step back of no more than slack, as between the frames of two
// capture queues, is waited out; from a longer one on time goes on from there.
type clock struct {
	slack        int64 // in nanoseconds, as all times of the table: a second at least
	offset, last int64
}

// at returns the time of the table.
func (c *clock) at(now time.Time) int64 {
	t := now.UnixNano() + c.offset
	if back := c.last - t; back > 0 {
		if back > c.slack {
			c.offset += back
		}
		t = c.last
	}
	c.last = t
	return t
}
