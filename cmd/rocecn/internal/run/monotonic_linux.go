package run

import (
	"time"

	"golang.org/x/sys/unix"
)

// readMonotonicClock returns the time of CLOCK_MONOTONIC, which systemd compares for reloads.
func readMonotonicClock() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // always supported
	return time.Duration(now.Nano())
}
