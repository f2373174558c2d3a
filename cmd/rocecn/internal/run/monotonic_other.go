//go:build !linux

package run

import "time"

// readMonotonicClock returns 0: there is no systemd.
func readMonotonicClock() time.Duration { return 0 }
