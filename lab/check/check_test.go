package check

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/fluid"
	"github.com/stretchr/testify/require"
)

// The quick checks are within their bounds.
func TestQuick(t *testing.T) {
	for _, c := range All() {
		if !c.Quick {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			rows, err := c.Run()
			require.NoError(t, err)
			require.NotEmpty(t, rows)
			right(t, rows)
		})
	}
}

func right(t *testing.T, rows []Row) {
	for _, r := range rows {
		if !r.OK() {
			var table bytes.Buffer
			require.NoError(t, Print(&table, rows))
			t.Fatalf("%s: %s\n%s", r.Check, r.What, &table)
		}
	}
}

// A6 for one number of flows and one seed.
func TestFixedPoint(t *testing.T) {
	rows, err := fixedPointOf(4, 1, 300*ms)
	require.NoError(t, err)
	require.Len(t, rows, 7)
	right(t, rows)
}

// A7 for two flows and one more, with fewer seeds.
func TestConvergence(t *testing.T) {
	took, err := shared(paper(lab.CNP), 2, 6)
	require.NoError(t, err)
	right(t, []Row{within("two flows and one more", "ms", modelShared(2), 0.35, took)})
}

// A7 for ten flows and one more of the same α, as in the proof, with fewer seeds.
func TestBound(t *testing.T) {
	m := fluid.Paper(11)
	alpha := m.RestingAlpha()
	took, err := shared(proven(alpha), 10, 2)
	require.NoError(t, err)
	right(t, []Row{between("ten flows and one more", "ms", 33.84, m.Joining(alpha)*1000/2, 33.84, took)})
}

// A8 for ten flows in a long loop, over less time.
func TestStability(t *testing.T) {
	s, err := settle(paper(lab.CNP), 10, 40e9, 85*µs/4, 50*ms, 100*ms)
	require.NoError(t, err)
	use := modelUse(10, 85*µs)
	right(t, []Row{between("ten flows, 85 µs", "%", use, use-4, use+4, s.use*100)})
	require.Greater(t, s.queue.Deviation(), s.queue.Mean())
}

func TestPrint(t *testing.T) {
	rows := []Row{
		within("a queue", "octets", 100, 0.1, 109), within("another", "", 1.5, 0.1, 1.2),
	}
	var table bytes.Buffer
	require.NoError(t, Print(&table, rows))
	lines := strings.Split(table.String(), "\n")
	require.Len(t, lines, 4)
	require.Regexp(t, `a queue +100 +109 +90 … 110 +octets +ok$`, lines[1])
	require.Regexp(t, `another +1.5 +1.2 +1.35 … 1.65 +WRONG$`, lines[2])
}

func TestRun(t *testing.T) {
	checks := []Check{
		{ID: "1", run: func() ([]Row, error) { return []Row{{What: "a"}, {What: "b"}}, nil }},
		{ID: "2", run: func() ([]Row, error) { return []Row{{What: "c"}}, nil }},
		{ID: "3", run: func() ([]Row, error) { return nil, errors.New("does not add up") }},
	}
	said := 0
	rows, err := Run(t.Context(), checks, func(Check, bool) { said++ })
	require.EqualError(t, err, "3: does not add up")
	require.Equal(t, []Row{{Check: "1", What: "a"}, {Check: "1", What: "b"}, {Check: "2", What: "c"}}, rows)
	require.Equal(t, 6, said)

	ctx, end := context.WithCancel(t.Context())
	end()
	rows, err = Run(ctx, checks, func(Check, bool) {})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, rows)
}
