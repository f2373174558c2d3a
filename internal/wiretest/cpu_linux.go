package wiretest

import (
	"syscall"
	"time"
)

// CPUTime returns how much time of processors the program has had: on a machine that
// is shared, what a benchmark should go by.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
