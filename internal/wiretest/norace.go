//go:build !race

package wiretest

// Race reports whether the race detector is on.
const Race = false
