//go:build !linux

package run

import "time"

// monotonic returns 0: there is no systemd.
func monotonic() time.Duration { return 0 }
