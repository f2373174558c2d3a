package qplearn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The pace of packets does not change if a caller asks at times between them, for any distance
// between packets.
func TestPace(t *testing.T) {
	start := time.Unix(1e9, 0)
	c := clock{ticks: 1 << 20}
	for _, s := range []time.Duration{0, 4, 8} {
		c.seen(start.Add(s * time.Second))
	}
	require.Equal(t, time.Minute, c.answerTime())
	c.set(start.Add(8*time.Second + 10*time.Millisecond))
	c.seen(start.Add(12 * time.Second))
	require.Equal(t, 4*time.Second, c.pace)
	c.seen(start.Add(12*time.Second + 100*time.Millisecond))
	require.Equal(t, 1600*time.Millisecond, c.answerTime())
}
