//go:build race

package lab

import "testing"

// alone skips a test with one goroutine, or whose goroutines a shorter test has as well: the race detector sees nothing
// new in it, and makes networks ten times slower.
func alone(t *testing.T) {
	t.Helper()
	t.Skip("nothing for the race detector to see")
}
