package wiretest

import "testing"

// Alone skips a test under the race detector: one with one goroutine, or whose goroutines a shorter test has as well.
// The detector sees nothing new in it, and makes simulated networks ten times slower.
func Alone(t *testing.T) {
	t.Helper()
	if Race {
		t.Skip("nothing for the race detector to see")
	}
}
