package wiretest

import (
	"testing"
	"time"
)

// The longest time that a test waits for an event: routing protocols take time to find
// their peers.
const Timeout = 90 * time.Second

// Await asks again and again, more and more seldom, until the answer is yes.
func Await(t testing.TB, condition string, ask func() bool) {
	t.Helper()
	pause, end := time.Millisecond, time.Now().Add(Timeout)
	for ; !ask(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", Timeout, condition)
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
}
