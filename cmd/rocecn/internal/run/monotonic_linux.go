package run

import (
	"time"

	"golang.org/x/sys/unix"
)

// readMonotonicClock returns CLOCK_MONOTONIC, the clock by which systemd knows when a reload
// began.
func readMonotonicClock() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // which there always is
	return time.Duration(now.Nano())
}
