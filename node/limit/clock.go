package limit

import "time"

// standstill is the largest step back of the clock that is waited out. Packets
// of several capture queues, or of several cores, have time stamps of clocks that
// differ by less; a larger step is the clock being set.
const standstill = time.Second

// A clock is the time that a limit counts with. It stands still while the time
// that it is given is at most a standstill behind the latest one, so that two
// sources of time which take turns give no more than one of them alone. A larger
// step back is followed once: from there on that time is the latest one.
type clock struct {
	latest int64 // Unix time in nanoseconds; it may wrap
	began  bool
}

// at returns the time to count with, in nanoseconds.
func (c *clock) at(now time.Time) int64 {
	t := now.UnixNano()
	if back := uint64(c.latest - t); !c.began || back > uint64(standstill) { // forward is a very large back
		c.latest, c.began = t, true
	}
	return c.latest
}
