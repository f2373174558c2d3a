package wiretest

import "testing"

// Rounds returns how often a test does something with random inputs: n times, or a tenth of that in a short run, which
// is for where a whole one has been, on another machine or under the race detector.
func Rounds(n int) int {
	if testing.Short() {
		return max(n/10, 1)
	}
	return n
}

// Once skips a test in a short run: one that reads the repository, which is the same on every machine, or that is
// slow, and whose result other tests hold as well.
func Once(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("has been, in the whole run")
	}
}
