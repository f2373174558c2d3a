package limit

import "time"

// standstill is the largest step back during which a limit's time stands still. The
// clocks of several capture queues or cores differ by less; a larger step means that
// the clock was set.
const standstill = time.Second

// A clock is the time of a limit. It stands still while the given time is at most a
// standstill behind the latest one, and follows larger steps back.
// The zero Time stands for the latest one.
type clock struct {
	latest int64 // Unix time in nanoseconds; it may wrap
	began  bool
}

// at returns the limit's time, in nanoseconds.
func (c *clock) at(now time.Time) int64 {
	if now.IsZero() {
		return c.latest
	}
	t := now.UnixNano()
	if back := uint64(c.latest - t); !c.began || back > uint64(standstill) { // forward is a very large back
		c.latest, c.began = t, true
	}
	return c.latest
}
