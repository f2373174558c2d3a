package wiretest

import (
	"os"
	"runtime/debug"
	"strconv"
	"testing"
)

// Rounds returns the number of repetitions of a test with random inputs: n, or a tenth of that in a
// short run, which is for use after a whole run, on another machine or under the race detector.
func Rounds(n int) int {
	if testing.Short() {
		return max(n/10, 1)
	}
	return n
}

// Long reports whether tests run with all their inputs, as in the nightly run: with ROCECN_LONG=1 in the environment.
func Long() bool { return os.Getenv("ROCECN_LONG") != "" }

// RoundsOrLong is Rounds for a slow test: it returns long instead of n if all inputs are tried.
func RoundsOrLong(n, long int) int {
	if Long() {
		n = long
	}
	return Rounds(n)
}

// Once skips a test in a short run: a test that reads the repository, which is the same on every
// machine, or a slow test with a result that other tests check as well.
func Once(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("has been, in the whole run")
	}
}

// CollectRarely lets the heap grow by percent of the memory in use before garbage is collected, unless GOGC is set in
// the environment. It is for a TestMain of tests that make much garbage. The limit keeps it within the address space of
// a 32-bit system.
func CollectRarely(percent int) {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(percent)
	if strconv.IntSize == 32 {
		debug.SetMemoryLimit(1 << 30)
	}
}
