//go:build amd64 && !race

package qpmap_test

// slow says that a test of a million packets takes minutes: with the race detector, or in emulation.
const slow = false
