package conform

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A lateness measures the delay with which the machine of the tester runs programs: that of a goroutine that sleeps and
// wakes up late. A device on the same machine, and the tester itself, are as late.
type lateness struct {
	mu   sync.Mutex
	list []delay // those of the last minute
}

// A delay is the time by which the goroutine was late, and the end of that time.
type delay struct {
	end time.Time
	by  time.Duration
}

// measure measures until ctx is canceled.
func (l *lateness) measure(ctx context.Context) {
	const sleep, tolerated, kept = time.Millisecond, 2 * time.Millisecond, time.Minute
	for ctx.Err() == nil {
		begin := time.Now()
		time.Sleep(sleep)
		now := time.Now()
		if by := now.Sub(begin) - sleep; by > tolerated {
			l.mu.Lock()
			for len(l.list) > 0 && now.Sub(l.list[0].end) > kept {
				l.list = l.list[1:]
			}
			l.list = append(l.list, delay{now, by})
			l.mu.Unlock()
		}
	}
}

// since returns the longest delay that ended after a time.
func (l *lateness) since(begin time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.list) - 1; i >= 0 && l.list[i].end.After(begin); i-- {
		longest = max(longest, l.list[i].by)
	}
	return longest
}

// repeatLate does a measurement, and again while the machine of the tester was late by more than is tolerated, at most
// a few times. If it was late each time the case is inconclusive.
func (x *trial) repeatLate(tolerated time.Duration, measure func()) {
	for try := 1; ; try++ {
		begin := x.rig.now()
		measure()
		late := x.rig.late(begin)
		switch {
		case late <= tolerated || x.isOver():
			return
		case try == tries:
			x.keepError("time", fmt.Errorf(
				"the tester's machine is busy: a program ran %v late in each of %d measurements", late, tries))
			return
		}
	}
}
