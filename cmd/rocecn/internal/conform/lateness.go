package conform

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A lateness measures the delay with which the machine of the tester runs programs: that of a goroutine that sleeps and
// wakes up late. A device on the same machine, and the tester itself, are delayed by the same time.
type lateness struct {
	now   func() time.Time
	sleep func(time.Duration)

	mu    sync.Mutex
	list  []delay   // those of the last minute
	begin time.Time // of the sleep in progress, or zero
}

// The goroutine sleeps for sleepTime, and a delay up to toleratedDelay is usual.
const sleepTime, toleratedDelay = time.Millisecond, 2 * time.Millisecond

// A delay is the time by which the goroutine was late, and the end of that time.
type delay struct {
	end time.Time
	by  time.Duration
}

// measure measures until ctx is canceled.
func (l *lateness) measure(ctx context.Context) {
	const kept = time.Minute
	begin := l.now()
	for ctx.Err() == nil {
		l.mu.Lock()
		l.begin = begin
		l.mu.Unlock()
		l.sleep(sleepTime)
		now := l.now()
		if by := now.Sub(begin) - sleepTime; by > toleratedDelay {
			l.mu.Lock()
			for len(l.list) > 0 && now.Sub(l.list[0].end) > kept {
				l.list = l.list[1:]
			}
			l.list = append(l.list, delay{now, by})
			l.mu.Unlock()
		}
		begin = now
	}
}

// since returns the longest delay that ended after a time or is in progress.
func (l *lateness) since(begin time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if by := l.now().Sub(l.begin) - sleepTime; !l.begin.IsZero() && by > toleratedDelay {
		longest = by
	}
	for i := len(l.list) - 1; i >= 0 && l.list[i].end.After(begin); i-- {
		longest = max(longest, l.list[i].by)
	}
	return longest
}

// repeatLate does a measurement, and again while the machine of the tester was late by more than is tolerated, at most
// a few times while the case has time left. If it was late each time the case is inconclusive.
func (x *trial) repeatLate(tolerated time.Duration, measure func()) {
	for try := 1; ; try++ {
		begin := x.rig.now()
		measure()
		late := x.rig.late(begin)
		switch {
		case late <= tolerated:
			return
		case try == tries || x.isOver():
			x.keepError("time", fmt.Errorf(
				"the tester's machine is busy: a program ran %v late in each of %d measurements", late, try))
			return
		}
	}
}
