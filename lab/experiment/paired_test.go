package experiment

import (
	"fmt"
	"math"
	"testing"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/stretchr/testify/require"
)

// The probabilities are those of printed tables of Student's t, of its closed forms for 1 and 2 degrees of freedom, and
// of R's documentation of t.test: the sleep data of Student (1908), paired, t = −4.0621, df = 9, p-value = 0.002833.
func TestPairedP(t *testing.T) {
	for _, c := range []struct {
		name string
		t    float64
		n    int
		want float64
	}{
		{"1 degree, closed form", 3, 1, 1 - 2/math.Pi*math.Atan(3)},
		{"1 degree, table", 12.7062, 1, 0.05},
		{"2 degrees, closed form", 3, 2, 1 - 3/math.Sqrt(11)},
		{"2 degrees, table", 4.30265, 2, 0.05},
		{"3 degrees, table", 5.84091, 3, 0.01},
		{"4 degrees, table", 2.77645, 4, 0.05},
		{"5 degrees, table", 4.03214, 5, 0.01},
		{"9 degrees, table", 2.26216, 9, 0.05},
		{"9 degrees, table, 0.1 %", 4.78091, 9, 0.001},
		{"120 degrees, table", 1.97993, 120, 0.05},
		{"no difference", 0, 7, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.InDelta(t, c.want, studentTail(c.t, c.n), 2e-6)
			require.InDelta(t, c.want, studentTail(-c.t, c.n), 2e-6)
		})
	}
	sleep := []float64{1.2, 2.4, 1.3, 1.3, 0, 1, 1.8, 0.8, 4.6, 1.4}
	require.InDelta(t, 0.002833, pairedP(sleep), 5e-7)
	require.EqualValues(t, 1, pairedP([]float64{0, 0, 0}))
	require.EqualValues(t, 0, pairedP([]float64{2, 2, 2}))
	require.True(t, math.IsNaN(pairedP([]float64{2})))
}

// By hand; the second one is p.adjust(c(0.01, 0.02, 0.03, 0.04), "holm") of R.
func TestHolm(t *testing.T) {
	for _, c := range []struct {
		name       string
		give, want []float64
	}{
		{"one", []float64{0.04}, []float64{0.04}},
		{"rising", []float64{0.01, 0.02, 0.03, 0.04}, []float64{0.04, 0.06, 0.06, 0.06}},
		{"not in order", []float64{0.3, 0.001, 0.02}, []float64{0.3, 0.003, 0.04}},
		{"at most 1", []float64{0.6, 0.7}, []float64{1, 1}},
		{"none", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.InDeltaSlice(t, c.want, correctHolm(c.give), 1e-12)
		})
	}
	got := correctHolm([]float64{0.02, math.NaN(), 0.01})
	require.InDelta(t, 0.02, got[0], 1e-12)
	require.True(t, math.IsNaN(got[1]), "one seed is no test")
	require.InDelta(t, 0.02, got[2], 1e-12)
}

// Seeds are paired: the values of two variants may overlap although each seed differs.
func TestChanges(t *testing.T) {
	r := &Results{}
	for i, name := range []string{"a", "b"} {
		r.Cases = append(r.Cases, CaseText{Experiment: "X", Name: name,
			Variants: []lab.Variant{lab.CNP, lab.FastCNP, lab.HPCC, lab.HPCCBoth}})
		for seed := range 6 {
			base := 100 * float64(seed+1)
			noise := float64([]int{-1, 1, -1, 1, -2, 2}[seed])
			for _, run := range []struct {
				v lab.Variant
				x float64
			}{
				{lab.CNP, base}, {lab.FastCNP, base * (1 + float64(i)*(10+noise)/100 + (1-float64(i))*noise/100)},
				{lab.HPCC, 0}, {lab.HPCCBoth, 3 + noise/10},
			} {
				r.Runs = append(r.Runs, Run{Experiment: "X", Case: name, Variant: run.v, Seed: uint64(seed + 1),
					Figures: Figures{peak: run.x}})
			}
		}
	}
	all := r.Changes("X", peak)
	require.Len(t, all, 6, "fastcnp and hpcc to cnp, hpcc-both to hpcc, in two cases")
	var texts []string
	for i := range all {
		c := &all[i]
		require.Equal(t, 6, c.Seeds)
		require.Equal(t, 6, c.Comparisons)
		texts = append(texts, fmt.Sprintf("%s %v to %v: %v", c.Case.Name, c.Variant, c.Baseline, c))
	}
	require.Equal(t, []string{
		"a fastcnp to cnp: 0 % (-2…2) n.s.", "a hpcc to cnp: -100 %", "a hpcc-both to hpcc: +3 (2.8…3.2)",
		"b fastcnp to cnp: +10 % (8…12)", "b hpcc to cnp: -100 %", "b hpcc-both to hpcc: +3 (2.8…3.2)",
	}, texts)
	c, ok := r.Change(&r.Cases[1], lab.FastCNP, peak)
	require.True(t, ok)
	require.EqualValues(t, all[3].AdjustedP, c.AdjustedP)
	_, ok = r.Change(&r.Cases[1], lab.CNP, peak)
	require.False(t, ok, "the baseline")
}

// The halves agree if they differ by 2 % at most, or if the seeds differ by more than the halves, but not if the seeds
// are fewer than six or differ so much that halves with 10 % between them would agree.
func TestSteadiness(t *testing.T) {
	for _, c := range []struct {
		name   string
		halves [][2]float64
		want   Steadiness
	}{
		{"equal", six(5, 0, 0), InSteady},
		{"equal, five seeds", six(5, 0, 0)[:5], TooFewSeeds},
		{"1.9 % in each seed", six(100, 1.9, 1.9), InSteady},
		{"2.2 % in each seed", six(100, 2.2, 2.2), NotSteady},
		{"2.2 % in each of two seeds", six(100, 2.2, 2.2)[:2], NotSteady},
		{"9 % in either direction", six(100, 9, -9), InSteady},
		{"11 % in either direction", six(100, 11, -11), TooFewSeeds},
		{"1 % in the median, 11 % in one seed", append(six(100, 1, 1), [2]float64{100, 111})[1:], TooFewSeeds},
		{"one seed", [][2]float64{{100, 110}}, NotSteady},
		{"one seed, equal", [][2]float64{{100, 100}}, TooFewSeeds},
		{"from 0", six(0, 1, 2), NotSteady},
		{"always 0", six(0, 0, 0), InSteady},
		{"0 in all seeds except one", append(six(0, 0, 0), [2]float64{0, 1})[1:], TooFewSeeds},
		{"none", nil, Unchecked},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Results{Cases: []CaseText{{Experiment: "X", Name: "a", Scenario: []byte(`{"warmup":"1ms"}`),
				Variants: []lab.Variant{lab.CNP, lab.FastCNP}}}}
			for seed, h := range append(c.halves, make([][2]float64, map[bool]int{true: 1}[c.halves == nil])...) {
				run := Run{Experiment: "X", Case: "a", Variant: lab.CNP, Seed: uint64(seed), Figures: Figures{use: 7}}
				if c.halves != nil {
					run.Halves = map[string][2]float64{use: h}
				}
				r.Runs = append(r.Runs, run)
				run.Variant = lab.FastCNP
				r.Runs = append(r.Runs, run)
			}
			require.Equal(t, c.want, r.Steadiness(&r.Cases[0], lab.CNP, use))
			require.Equal(t, Start, r.Steadiness(&r.Cases[0], lab.CNP, firstCut), "of the start")
			cell, _ := r.Cell(&r.Cases[0], lab.CNP, use)
			texts := map[Steadiness]string{
				InSteady: "7", NotSteady: "not steady", Unchecked: "7 †", TooFewSeeds: "7 ‡",
			}
			require.Equal(t, texts[c.want], cell)
			_, ok := r.Change(&r.Cases[0], lab.FastCNP, use)
			compared := c.want == InSteady || c.want == Unchecked
			require.Equal(t, compared, ok, "a figure that is not steady is not compared")
		})
	}
}

// six returns halves of six seeds, with these differences between them by turns.
func six(first, odd, even float64) (halves [][2]float64) {
	for i := range 6 {
		d := odd
		if i%2 == 1 {
			d = even
		}
		halves = append(halves, [2]float64{first, first + d})
	}
	return halves
}

// A comparison of one seed is no test: the correction does not count it.
func TestComparisons(t *testing.T) {
	r := &Results{}
	for _, name := range []string{"a", "b"} {
		r.Cases = append(r.Cases, CaseText{Experiment: "X", Name: name, Variants: []lab.Variant{lab.CNP, lab.FastCNP}})
		for seed := range map[string]int{"a": 6, "b": 1}[name] {
			for i, v := range []lab.Variant{lab.CNP, lab.FastCNP} {
				r.Runs = append(r.Runs, Run{Experiment: "X", Case: name, Variant: v, Seed: uint64(seed + 1),
					Figures: Figures{peak: 100 + float64(i*(seed+1))}})
			}
		}
	}
	all := r.Changes("X", peak)
	require.Len(t, all, 2)
	for i := range all {
		require.Equal(t, 1, all[i].Comparisons, all[i].Case.Name)
	}
	require.EqualValues(t, all[0].P, all[0].AdjustedP)
	require.True(t, math.IsNaN(all[1].AdjustedP))
	require.False(t, all[1].Significant())
}

// A case that is not steady runs again for twice as long: the queue of a link that is full from 100 µs on grows.
func TestDurationDoubles(t *testing.T) {
	cases := func(rate scenario.Rate) []Case {
		e := Experiment{ID: "X", cases: func(Size) []Case {
			s := scenario.Default()
			s.Variants, s.Reaction.Kind = []lab.Variant{lab.CNP}, "none"
			s.Topology.Kind, s.Topology.Hosts = "star", 3
			s.Traffic = []scenario.Traffic{{Kind: "incast", Senders: 2, Jitter: µs, Rate: rate}}
			s.Warmup, s.Duration = 20*µs, 60*µs
			return []Case{{Scenario: s, At: []Coordinate{number("rate", float64(rate)/1e9, "Gbit/s")}}}
		}}
		return e.Cases(Quick, 0)
	}
	for _, c := range []struct {
		rate scenario.Rate
		want string
	}{{40e9, "60 of 20"}, {60e9, "240 of 80"}} {
		t.Run(fmt.Sprint(c.rate), func(t *testing.T) {
			saved := 0
			p := Plan{Cases: cases(c.rate), Save: func(*Results) error { saved++; return nil }}
			r, err := p.Run(t.Context(), "c0ffee", Quick, func(float64) {})
			require.NoError(t, err)
			require.Len(t, r.Runs, 6)
			require.Equal(t, 2, saved, "after the case, and at the end")
			s, err := scenario.Read(r.Cases[0].Scenario)
			require.NoError(t, err)
			require.Equal(t, c.want, fmt.Sprint(s.Duration/µs, " of ", s.Warmup/µs))
			want := InSteady
			if c.rate == 60e9 {
				want = NotSteady
			}
			require.Equal(t, want, r.Steadiness(&r.Cases[0], lab.CNP, mean))

			again := Plan{Cases: cases(c.rate), Before: r}
			known, err := again.Run(t.Context(), "decaf", Quick, func(float64) {})
			require.NoError(t, err)
			require.Equal(t, r.Runs, known.Runs)
			require.Equal(t, "c0ffee", known.Cases[0].Commit, "of the program that ran it")
			require.Equal(t, "decaf, c0ffee", known.Commit)
		})
	}
}
