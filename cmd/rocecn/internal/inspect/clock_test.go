package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Times have six digits, or nine where they need them; where they stand below one
// another all have nine from there on.
func TestClock(t *testing.T) {
	at := func(ns int64) time.Time { return time.Unix(0, ns).UTC() }
	var line clock
	column := clock{aligned: true}
	for _, c := range []struct {
		ns           int64
		line, column string
	}{
		{1_000, "00:00:00.000001", "00:00:00.000001"},
		{1_001, "00:00:00.000001001", "00:00:00.000001001"},
		{999_999_000, "00:00:00.999999", "00:00:00.999999000"},
		{1_000_000_000, "00:00:01.000000", "00:00:01.000000000"},
	} {
		require.Equal(t, c.line, string(line.append(nil, at(c.ns), "15:04:05")))
		require.Equal(t, c.column, string(column.append(nil, at(c.ns), "15:04:05")))
	}
}
