//go:build !linux

package wiretest

import "time"

var began = time.Now()

// CPUTime returns the time since the program began, as no better measure is known here.
func CPUTime() time.Duration { return time.Since(began) }
