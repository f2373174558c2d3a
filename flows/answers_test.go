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

// Each syndrome counts under its own code, of a known flow and of an unknown one. Reserved codes count nowhere.
func TestAnswersByCode(t *testing.T) {
	paired, unknown := newPaired(t, 100), newScript(t)
	paired.sendOnly(100, 101, 102)
	for _, s := range []*script{paired, unknown} {
		for code := range bth.Syndrome(8) { // a NAK with code n comes n+1 times
			for range code + 1 {
				s.answerOp(bth.RCAcknowledge, 0x60|code, 101)
			}
		}
		s.answerACK(100, 101).answerRNR(102)
	}
	want := []uint64{1, 2, 3, 4, 5}
	f := paired.onlyFlow()
	strays := unknown.sumStrays()
	for _, a := range []*Answers{&f.Answers, &strays} {
		var got []uint64
		for code, n := range a.NAKs() {
			require.Equal(t, n, *a.NAK(code))
			got = append(got, n)
		}
		require.Equal(t, want, got)
		require.EqualValues(t, 2, a.ACKs)
		require.EqualValues(t, 1, a.RNRNAKs)
		require.EqualValues(t, 1+2+3+4+5+2+1, a.Total())
	}
}
