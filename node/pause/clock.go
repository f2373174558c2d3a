package pause

import "time"

// slack is how far back time may go and still be waited out, as between the
// frames of two capture queues: as far as package limit waits.
const slack = int64(time.Second)

// A clock turns the times that callers give, which may jump back, into times
// that never do: after a longer step back time goes on from where it was, so that
// a stop lasts no longer for it. One that is waited out makes a stop longer by as
// much.
type clock struct{ offset, last int64 }

// at returns the time of the table, in nanoseconds.
func (c *clock) at(now time.Time) int64 {
	t := now.UnixNano() + c.offset
	if back := c.last - t; back > 0 {
		if back > slack {
			c.offset += back
		}
		t = c.last
	}
	c.last = t
	return t
}
