package flows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Timers of a receiver are printed as one, or as the least and the largest of them.
func TestFormatTimers(t *testing.T) {
	for _, row := range []struct {
		name string
		all  []time.Duration
		want string
	}{
		{"one", []time.Duration{time.Millisecond}, "1ms"},
		{"equal", []time.Duration{time.Millisecond, time.Millisecond}, "1ms"},
		{"several", []time.Duration{10 * time.Microsecond, time.Millisecond, 655360 * time.Microsecond},
			"10µs to 655.36ms"},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.want, formatTimers(row.all)) })
	}
}
