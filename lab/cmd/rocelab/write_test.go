package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/lab/experiment"
)

// A fullDisk takes so many octets and then no more.
type fullDisk struct{ room int }

var errFull = errors.New("no space left on device")

func (d *fullDisk) Write(b []byte) (int, error) {
	n := min(len(b), d.room)
	if d.room -= n; n < len(b) {
		return n, errFull
	}
	return n, nil
}

// Results that could not be written as a whole are an error, wherever the disk became full.
func TestResultsNotWritten(t *testing.T) {
	results := &experiment.Results{Commit: "c0ffee", Size: "quick", Runs: make([]experiment.Run, 200)}
	disk := &fullDisk{1 << 30}
	require.NoError(t, writeJSON(disk, results))
	size := 1<<30 - disk.room
	for _, room := range []int{0, 1, 4095, 4096, 4097, size / 2, size - 2, size - 1} {
		require.ErrorIs(t, writeJSON(&fullDisk{room}, results), errFull, "room for %d of %d octets", room, size)
	}
}
