package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Unix(1795254649, 0)

// Of a step back, exactly Slack is waited out; one of a nanosecond more goes on from where the time was.
func TestClock(t *testing.T) {
	c := Clock{Slack: 100 * time.Second}
	for _, step := range []struct{ at, want time.Duration }{
		{1000e9, 0},   // it begins here
		{1000e9, 0},   // no step
		{999e9, 0},    // waited out
		{1001e9, 1e9}, // and so over
		{901e9, 1e9},  // exactly Slack
		{901e9 - 1, 1e9},
		{902e9 - 1, 2e9}, // a nanosecond more: it went on from there
		{1002e9 - 1, 102e9},
		{902e9 - 2, 102e9}, // Slack and one again
		{903e9 - 2, 103e9},
	} {
		require.EqualValues(t, step.want, c.Ticks(time.Unix(0, int64(step.at))), step.at)
		require.EqualValues(t, step.want, c.Now())
	}
}

// A time of 0, as of captures that were made up, is a time like others.
func TestUnixZero(t *testing.T) {
	var c Clock
	require.Equal(t, int64(zeroTime), time.Time{}.UnixNano())
	require.Zero(t, c.Ticks(time.Unix(0, 0)))
	require.EqualValues(t, 5, c.Ticks(time.Unix(0, 5)))
}

// The zero Clock, and one with less slack, wait out a second.
func TestLeastSlack(t *testing.T) {
	for _, c := range []Clock{{}, {Slack: 1}, {Slack: time.Second}} {
		require.Zero(t, c.Ticks(start))
		require.Zero(t, c.Ticks(start.Add(-time.Second)))
		require.EqualValues(t, 1, c.Ticks(start.Add(1)))
		require.EqualValues(t, 1, c.Ticks(start.Add(-time.Second)))
		require.EqualValues(t, 2, c.Ticks(start.Add(-time.Second+1)))
	}
}

// The zero Time is the previous time, also if it is the first one. Ticks neither go back nor
// overflow, for times of any year.
func TestClockWithoutTime(t *testing.T) {
	c := Clock{Slack: 100 * time.Second}
	require.Zero(t, c.Ticks(time.Time{}))
	require.Zero(t, c.Ticks(start))
	require.EqualValues(t, 5, c.Ticks(start.Add(5)))
	require.EqualValues(t, 5, c.Ticks(time.Time{}))
	require.EqualValues(t, 7, c.Ticks(start.Add(7)))
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	require.EqualValues(t, 7, c.Ticks(year(2)), "far back")
	require.EqualValues(t, 9, c.Ticks(year(2).Add(2)))
	require.EqualValues(t, 9, c.Ticks(time.Unix(0, 0).AddDate(-2000, 0, 0)))
	last := c.Ticks(year(1970))
	for y := range 20 { // thousands of years: more than there is
		at := c.Ticks(year(1970 + 1000*(y&1)))
		require.GreaterOrEqual(t, at, last)
		require.Positive(t, at+int64(time.Hour))
		last = at
	}
}
