package wiretest

import (
	"testing"
	"time"
)

// The longest time that a test waits for an event: routing protocols take time to find
// their peers.
const Patience = 90 * time.Second

// Await asks again and again, more and more seldom, until the answer is yes.
func Await(t testing.TB, what string, ask func() bool) {
	t.Helper()
	pause, end := time.Millisecond, time.Now().Add(Patience)
	for ; !ask(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", Patience, what)
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
}
