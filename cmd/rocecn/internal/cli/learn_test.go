package cli

import (
	"runtime"
	"testing"

	"github.com/rocecn/rocecn/qpmap"
	"github.com/stretchr/testify/require"
)

// The tables of the tool have the documented maximum.
func TestLearnConfig(t *testing.T) {
	c := LearnConfig(1, true)
	c.Grow = false // allocate the maximum
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m := qpmap.New(c)
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(m)
	require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(230e6))
}
