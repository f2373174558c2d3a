package flows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
)

// The timers of RNR NAKs are those of IBTA volume 1, table 45: code 0 is the longest.
func TestRNRTimers(t *testing.T) {
	ms := []float64{655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92,
		2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52}
	var all Answers
	var want []time.Duration
	for code := 1; code <= 32; code++ { // 0 is the last one
		var one Answers
		one.countAcknowledge(bth.Syndrome(0x20 | code%32))
		d := time.Duration(ms[code%32]*1000) * time.Microsecond
		require.Equal(t, []time.Duration{d}, one.Timers())
		want = append(want, d)
		all.addCounts(&one)
	}
	require.Equal(t, want, all.Timers())
	require.EqualValues(t, 32, all.RNRNAKs)
	var acks Answers
	acks.countAcknowledge(0x1f)
	acks.countAcknowledge(0x60)
	require.Empty(t, acks.Timers())
}
