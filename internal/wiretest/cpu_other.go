//go:build !linux

package wiretest

import "time"

var began = time.Now()

// CPUTime returns how long the program has run, where nothing better is known.
func CPUTime() time.Duration { return time.Since(began) }
