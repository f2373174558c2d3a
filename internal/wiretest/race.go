//go:build race

package wiretest

// Race says whether the race detector is on.
const Race = true
