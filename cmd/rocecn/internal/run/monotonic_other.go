//go:build !linux

package run

import "time"

// readMonotonicClock returns 0, as there is no systemd.
func readMonotonicClock() time.Duration { return 0 }
