package pause

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A step back of exactly slack is waited out, one of a nanosecond more is not.
func TestClock(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	c := made(t, Config{}).clock
	at := func(d time.Duration) time.Duration { return time.Duration(c.At(start.Add(d))) }
	require.Zero(t, at(0))
	require.Equal(t, 5*time.Second, at(5*time.Second))
	require.Equal(t, 5*time.Second, at(4*time.Second))
	require.Equal(t, 5*time.Second+1, at(5*time.Second+1), "waited out")
	require.Equal(t, 5*time.Second+1, at(4*time.Second), "a nanosecond more")
	require.Equal(t, 6*time.Second+1, at(5*time.Second), "goes on from there")
}
