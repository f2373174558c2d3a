package check

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/fluid"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/stretchr/testify/require"
)

// byHand has expected figures that were computed by hand. A frame has 1106 octets, and 1126 on the wire. A check would
// compare less if a time were 0 in the network and in the closed form.
var byHand = []struct {
	check, what string
	expected    float64
}{
	// 90.08 ns at 100 Gbit/s, 225.2 ns at 40 Gbit/s, links of 333.333 and 666.666 ns, and a pipeline of 700 ns.
	{"A1", "1 switches, packet 1", 2_015_279},
	{"A1", "1 switches, packet 50", 2_015_279 + 49*225_200},
	{"A2", "load 0.3, mean wait", 0.3 / (2 * 0.7) * 90.08},
	// 10 ms without two links of 1 µs, two packet times and a start of 350 ns, divided by 529.88 ns.
	{"A3", "packets at 17 Gbit/s in 10 ms", 18_867 + 1},
	// 100 µs, two frames of 225.2 ns, a pause of 16.8 ns, 500 and 600 ns: 451.01 frames.
	{"A4", "10 km, headroom used", 452 * 1106},
	{"A5", "HPCC, 64 flows at 100 Gbit/s, U", 95 + 64*0.04},
	{"A11", "2 flows, flow scaling 0s: round trip", 25},
}

// The quick checks are within their bounds.
func TestQuick(t *testing.T) {
	for _, c := range All() {
		// Two checks that run at the same time show whether they share state. Their results are the same on every
		// machine: TestPrints.
		if !c.Quick || (wiretest.Race || testing.Short()) && c.ID != "A1" && c.ID != "A4" {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			rows := wiretest.Must(c.Run(t.Context(), nil))(t)
			require.NotEmpty(t, rows)
			right(t, rows)
			for _, h := range byHand {
				if h.check != c.ID {
					continue
				}
				i := slices.IndexFunc(rows, func(r Row) bool { return r.What == h.what })
				require.GreaterOrEqual(t, i, 0, h.what)
				require.InEpsilon(t, h.expected, rows[i].Expected, 1e-9, h.what)
			}
		})
	}
}

func newTrial(t *testing.T) *trial { return &trial{ctx: t.Context(), open: map[*lab.Network]bool{}} }

// right requires rows within their bounds. Results of several seeds differ; A10 has rows of its own for that, as the
// peak of the queue is the same with all seeds for some variants.
func right(t *testing.T, rows []Row) {
	for _, r := range rows {
		if r.Seeds > 1 && r.Check != "A10" {
			require.Less(t, r.From, r.To, "%s: %s", r.Check, r.What)
		}
		if !r.OK() {
			var table bytes.Buffer
			require.NoError(t, Print(&table, rows))
			t.Fatalf("%s: %s\n%s", r.Check, r.What, &table)
		}
	}
}

// A6 for one number of flows and one seed.
func TestFixedPoint(t *testing.T) {
	wiretest.Once(t)
	wiretest.Alone(t)
	rows := wiretest.Must(newTrial(t).fixedPointOf(4, 1, 300*ms))(t)
	require.Len(t, rows, 10)
	right(t, rows)
}

// A7 for two flows and one more, with fewer seeds.
func TestConvergence(t *testing.T) {
	wiretest.Once(t)
	wiretest.Alone(t)
	took := wiretest.Must(newTrial(t).timeToShare(paper(lab.CNP), 2, 6))(t)
	right(t, []Row{rowWithin("two flows and one more", "ms", modelShared(2), 0.35, took)})
}

// A7 for ten flows and one more of the same α, as in the proof, with fewer seeds.
func TestBound(t *testing.T) {
	wiretest.Once(t)
	wiretest.Alone(t)
	m := fluid.Paper(11)
	alpha := m.RestingAlpha()
	took := wiretest.Must(newTrial(t).timeToShare(proven(alpha), 10, 2))(t)
	right(t, []Row{Between("ten flows and one more", "ms", 33.84, m.Joining(alpha)*1000/2, 33.84, took)})
}

// As in the proof of convergence, the rate rises from its value after the cut, by R_AI in each 55 µs, while α falls.
func TestProofFlow(t *testing.T) {
	f := proven(1).Control(40e9)
	start := sim.Time(0).Clock()
	_, on := f.Next()
	require.False(t, on)
	f.Advance(start.Add(time.Second))
	require.EqualValues(t, 40e9, f.Rate())
	f.Notified(nil, start)
	for i, want := range []uint64{20_000e6, 20_040e6, 20_080e6, 20_120e6} {
		f.Advance(start.Add(time.Duration(i) * 55 * time.Microsecond))
		require.Equal(t, want, f.Rate())
	}
	at, on := f.Next()
	require.True(t, on)
	require.Equal(t, start.Add(4*55*time.Microsecond), at)
	f.Notified(nil, start.Add(170*time.Microsecond)) // α = (255/256)³
	require.InDelta(t, 20_120e6*(1-math.Pow(255./256, 3)/2), f.Rate(), 3)
}

// A8 for ten flows in a long loop, over less time.
func TestStability(t *testing.T) {
	wiretest.Alone(t)
	s := wiretest.Must(newTrial(t).measureSteady(paper(lab.CNP), 10, 40e9, 85*µs/4, 50*ms, 100*ms))(t)
	use := modelUse(10, 85*µs)
	right(t, []Row{Between("ten flows, 85 µs", "%", use, use-4, use+4, s.use*100)})
	require.Greater(t, s.queue.Deviation(), s.queue.Mean())
}

func TestPrint(t *testing.T) {
	rows := []Row{
		rowWithin("a queue", "octets", 100, 0.1, 109), rowWithin("another", "", 1.5, 0.1, 1.2),
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
		{ID: "1", Rows: 2, run: func(*trial) ([]Row, error) { return []Row{{What: "a"}, {What: "b"}}, nil }},
		{ID: "2", Rows: 1, run: func(*trial) ([]Row, error) { return []Row{{What: "c"}}, nil }},
		{ID: "3", run: func(*trial) ([]Row, error) { return nil, errors.New("does not add up") }},
	}
	reported := 0
	rows, err := Run(t.Context(), checks, func(Check, bool) { reported++ })
	require.EqualError(t, err, "3: does not add up")
	require.Equal(t, []Row{{Check: "1", What: "a"}, {Check: "1", What: "b"}, {Check: "2", What: "c"}}, rows)
	require.Equal(t, 6, reported)

	// The progress of a long check is reported.
	long := Check{ID: "4", Rows: 1, run: func(t *trial) ([]Row, error) {
		n, _ := t.star(quiet(), 1, 400e9, 0)
		if err := startIncast(n, 1, 0); err != nil {
			return nil, err
		}
		return []Row{{}}, errors.Join(t.runUntil(n, ms), t.runUntil(n, 2*ms), t.runToEnd(n))
	}}
	reported = 0
	_, err = Run(t.Context(), []Check{long}, func(_ Check, done bool) { reported++ })
	require.NoError(t, err)
	require.Greater(t, reported, 4)

	ctx, end := context.WithCancel(t.Context())
	end()
	rows, err = Run(ctx, checks, func(Check, bool) {})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, rows)
	require.Equal(t, []string{"1, 2 of 2 rows", "2, 1 of 1 rows"}, Missing(checks, rows))
}

// interrupted is a context that has ended when it was asked so many times.
type interrupted struct {
	context.Context
	left int
}

func (c *interrupted) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// An interrupt ends each check in the middle of its networks.
func TestInterrupt(t *testing.T) {
	for _, c := range All() {
		if c.ID == "F" { // no networks
			continue
		}
		rows, err := c.Run(&interrupted{t.Context(), 3}, nil)
		require.ErrorIs(t, err, context.Canceled, c.ID)
		require.Less(t, len(rows), c.Rows, c.ID)
		require.NotEmpty(t, Missing([]Check{c}, rows), c.ID)
	}
}

// A check that did not examine all its networks, or has another number of rows than Rows, is an error.
func TestUnchecked(t *testing.T) {
	c := Check{Rows: 1, run: func(t *trial) ([]Row, error) {
		t.star(quiet(), 1, 1e9, 0)
		return []Row{{}}, nil
	}}
	_, err := c.Run(t.Context(), nil)
	require.EqualError(t, err, "1 networks did not have their sums checked")
	c = Check{Rows: 2, run: func(*trial) ([]Row, error) { return []Row{{}}, nil }}
	_, err = c.Run(t.Context(), nil)
	require.EqualError(t, err, "1 rows, and not 2")
}

// Rows of several seeds are judged by their median.
func TestRowOfSeeds(t *testing.T) {
	r := rowWithin("", "", 10, 0.1, 11.1, 10.9, 30)
	require.True(t, !r.OK() && r.Seeds == 3 && r.Measured == 11.1)
	r = rowWithin("", "", 10, 0.1, 10.8, 10.9, 30)
	require.True(t, r.OK())
}
