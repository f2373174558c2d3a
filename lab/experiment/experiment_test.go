package experiment

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/check"
	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/stretchr/testify/require"
)

// Every case of every size is a scenario without an error, and its short JSON is the same scenario.
func TestCases(t *testing.T) {
	for _, e := range All() {
		for _, size := range []Size{Quick, Full} {
			names := map[string]bool{}
			for _, c := range e.Cases(size, 0) {
				require.False(t, names[c.Name], "%s: %s stands there twice", e.ID, c.Name)
				names[c.Name] = true
				short := wiretest.Must(Short(c.Scenario))(t)
				read, err := scenario.Read(short)
				require.NoError(t, err, "%s, %s: %s", e.ID, c.Name, short)
				require.Equal(t, c.Scenario, read, "%s, %s", e.ID, c.Name)
				few := size == Quick || e.Long || c.Scenario.Duration >= 1000*ms
				require.Len(t, c.Scenario.Seeds, map[bool]int{true: 6, false: 10}[few], "%s: %s", e.ID, c.Name)
				require.NotEmpty(t, e.shown)
			}
			require.NotEmpty(t, names)
		}
	}
}

// small is an experiment of two cases that takes no time.
func small() []Case {
	e := Experiment{ID: "X", cases: func(Size) (cases []Case) {
		for _, n := range []int{2, 3} {
			t := scenario.Default()
			t.Variants = []lab.Variant{lab.CNP, lab.FastCNP}
			t.Topology.Kind, t.Topology.Hosts = "star", n+1
			t.Duration = 100 * µs
			t.Traffic = []scenario.Traffic{{Kind: "incast", Senders: n, Jitter: µs}}
			cases = append(cases, Case{Scenario: t, At: []Coordinate{number("senders", float64(n), "")}})
		}
		return cases
	}}
	return e.Cases(Quick, 5)
}

// Merged shares equal the whole experiment, in any order.
func TestShares(t *testing.T) {
	run := func(share, of int) *Results {
		p := Plan{Cases: small(), Share: share, Of: of}
		return wiretest.Must(p.Run(t.Context(), "c0ffee", Quick, func(float64) {}))(t)
	}
	whole := run(0, 0)
	require.Len(t, whole.Runs, 2*2*5)
	require.Zero(t, whole.Missing())
	shares := []*Results{run(3, 3), run(1, 3)}
	part := wiretest.Must(Merge(shares))(t)
	require.Equal(t, 10, part.Missing(), "the second case")
	merged := wiretest.Must(Merge(append(shares, run(2, 3))))(t)
	require.Zero(t, merged.Missing())
	want := wiretest.Must(json.Marshal(whole))(t)
	got := wiretest.Must(json.Marshal(merged))(t)
	require.JSONEq(t, string(want), string(got))

	// A share that is there twice is counted once.
	twice, err := Merge([]*Results{whole, run(1, 3)})
	require.NoError(t, err)
	require.Len(t, twice.Runs, 20)

	other := run(1, 3)
	other.Runs[0].Print = "0"
	_, err = Merge([]*Results{whole, other})
	require.ErrorContains(t, err, "two different runs")
	other = run(1, 3)
	other.Commit = "decaf"
	_, err = Merge([]*Results{whole, other})
	require.ErrorContains(t, err, "X, senders 2: of commits c0ffee and decaf")
	for i := range other.Cases { // cases of another experiment may be of another commit
		other.Cases[i].Experiment = "Y"
	}
	for i := range other.Runs {
		other.Runs[i].Experiment = "Y"
	}
	both := wiretest.Must(Merge([]*Results{whole, other}))(t)
	require.Equal(t, "c0ffee, decaf", both.Commit)
	require.Equal(t, "c0ffee", both.Cases[0].Commit)
	require.Equal(t, "decaf", both.Cases[2].Commit)
	again := wiretest.Must(Merge([]*Results{both, whole}))(t)
	require.Equal(t, both, again)
	other = run(1, 3)
	other.Size = "full"
	_, err = Merge([]*Results{whole, other})
	require.ErrorContains(t, err, "size full")
	other = run(1, 3)
	other.Cases[0].Scenario = []byte(`{}`)
	_, err = Merge([]*Results{whole, other})
	require.ErrorContains(t, err, "different scenarios")
	_, err = Merge(nil)
	require.Error(t, err)
}

// Ratios are by seed, and a seed without a figure, or with 0 below, is left out.
func TestRatios(t *testing.T) {
	r := &Results{Cases: []CaseText{{Experiment: "X", Name: "a"}}}
	for i, v := range []float64{2, 4, 0, 8} {
		r.Runs = append(r.Runs, Run{Experiment: "X", Case: "a", Variant: lab.CNP, Seed: uint64(i + 1),
			Figures: Figures{peak: v}})
	}
	for i, v := range []float64{1, 1, 1} {
		r.Runs = append(r.Runs, Run{Experiment: "X", Case: "a", Variant: lab.FastCNP, Seed: uint64(3 - i),
			Figures: Figures{peak: v}})
	}
	c := r.In("X")[0]
	require.Equal(t, []float64{0.5, 0.25}, r.Ratios(c, lab.FastCNP, lab.CNP, peak))
	require.Empty(t, r.Ratios(c, lab.Oracle, lab.CNP, peak))
	m, from, to, ok := r.Median(c, lab.CNP, peak)
	require.True(t, ok)
	require.Equal(t, "3 0 8", fmt.Sprint(m, from, to))

	delete(r.Runs[3].Figures, peak)
	cell, _ := r.Cell(c, lab.CNP, peak)
	require.Equal(t, "2 (0…4, 3 of 4 seeds)", cell)
	delete(r.Runs[1].Figures, peak)
	delete(r.Runs[2].Figures, peak)
	cell, _ = r.Cell(c, lab.CNP, peak)
	require.Equal(t, "2 (1 of 4 seeds)", cell)
}

// The saved results include the earlier ones, each case once and with its commit.
func TestSaveKeepsOtherCases(t *testing.T) {
	all := small()
	require.Len(t, all, 2)
	var saved []*Results
	run := func(commit string, cases []Case, before *Results) {
		p := Plan{Cases: cases, Before: before, Save: func(r *Results) error {
			saved = append(saved, r)
			return nil
		}}
		_, err := p.Run(t.Context(), commit, Quick, func(float64) {})
		require.NoError(t, err)
	}
	last := func() *Results { return saved[len(saved)-1] }
	run("a", all[1:], nil)
	last().Checks = []check.Row{{Check: "A1"}}
	run("b", all[:1], last())
	require.Equal(t, "b, a", last().Commit)
	require.Len(t, last().Cases, 2)
	require.Len(t, last().Runs, 20)
	require.Zero(t, last().Missing())
	require.Len(t, last().Checks, 1)
	for i, commit := range []string{"b", "a"} {
		c := &last().Cases[i]
		require.Equal(t, all[i].Name, c.Name)
		require.Equal(t, commit, c.Commit)
	}

	// Nothing runs again, and nothing is lost.
	before := len(saved)
	run("c", all, last())
	require.Len(t, saved, before+1, "only at the end")
	require.Len(t, last().Runs, 20)
	require.Len(t, last().Checks, 1)
	for i, commit := range []string{"b", "a"} {
		require.Equal(t, commit, last().Cases[i].Commit)
	}
}

// Figures of finished messages are accompanied by the number of unfinished ones. A quantile that unfinished messages
// may change is omitted.
func TestOpen(t *testing.T) {
	var c Case
	for _, c = range incastMessages.Cases(Quick, 1) {
		if c.Name == "rate 100 Gbit/s, buffer unlimited, senders 8, message 1000 KB" {
			break
		}
	}
	run := func(d scenario.Time) (string, Figures) {
		c.Scenario.Duration, c.Scenario.Variants = d, []lab.Variant{lab.None}
		p := Plan{Cases: []Case{c}}
		r := wiretest.Must(p.Run(t.Context(), "", Quick, func(float64) {}))(t)
		var out strings.Builder
		require.NoError(t, r.Print(&out))
		return out.String(), r.Runs[0].Figures
	}
	out, figures := run(5 * ms)
	require.NotContains(t, out, "unfinished")
	require.Contains(t, figures, lastTime)
	out, figures = run(708 * µs) // when some have ended
	require.Regexp(t, `(?m)^completion of a message, mean +µs, start +7\d\d\.\d \([1-7] unfinished\)$`, out)
	require.NotContains(t, figures, lastTime)
}

// Means of different messages are not compared.
func TestOtherMessages(t *testing.T) {
	r := &Results{Cases: []CaseText{{Experiment: "X", Name: "a"}}}
	for _, c := range []struct {
		v lab.Variant
		x float64
	}{{lab.CNP, 100}, {lab.FastCNP, 50}, {lab.None, 50}} {
		t.Run(fmt.Sprint(c.v), func(t *testing.T) {
			r.Runs = append(r.Runs, Run{Experiment: "X", Case: "a", Variant: c.v, Seed: 1,
				Figures: Figures{meanTime: c.x, remaining: map[lab.Variant]float64{lab.None: 3}[c.v]}})
		})
	}
	c := r.In("X")[0]
	shown := Shown{meanTime, -1}
	require.Equal(t, "better", r.formatAgainst(c, lab.FastCNP, shown))
	require.Empty(t, r.formatAgainst(c, lab.None, shown))
	cell, _ := r.Cell(c, lab.None, meanTime)
	require.Equal(t, "50 (3 unfinished)", cell)

	for seed := range 2 { // in which no and one message has not ended
		r.Runs = append(r.Runs, Run{Experiment: "X", Case: "a", Variant: lab.None, Seed: uint64(seed + 2),
			Figures: Figures{meanTime: 50, remaining: float64(seed)}})
	}
	r = &Results{Cases: r.Cases, Runs: r.Runs}
	cell, _ = r.Cell(r.In("X")[0], lab.None, meanTime)
	require.Equal(t, "50 (up to 3 unfinished)", cell)
}

// Results with different seeds, as in a share of a plan, are not compared.
func TestOtherSeeds(t *testing.T) {
	r := &Results{}
	for _, at := range []lab.Point{lab.AtDeparture, lab.AtArrival} {
		r.Cases = append(r.Cases, CaseText{Experiment: "C2", Name: at.String(), At: []Coordinate{
			word("decided at", at.String(), int(at)), number("senders", 8, ""),
		}})
		for _, c := range []struct {
			seed uint64
			v    lab.Variant
		}{{1, lab.CNP}, {2, lab.FastCNP}} {
			t.Run(fmt.Sprint(c.seed), func(t *testing.T) {
				r.Runs = append(r.Runs, Run{Experiment: "C2", Case: at.String(), Variant: c.v, Seed: c.seed,
					Figures: Figures{peak: 100}})
			})
		}
	}
	require.Empty(t, r.Rows())
	_, ok := difference(r, &r.Cases[0], peak)
	require.False(t, ok)

	r = &Results{Cases: r.Cases, Runs: append(r.Runs, Run{Experiment: "C2", Case: "departure", Variant: lab.FastCNP,
		Seed: 1, Figures: Figures{peak: 95}})}
	rows := r.Rows()
	require.Len(t, rows, 1)
	require.InDelta(t, -5, rows[0].Measured, 1e-9)
	x, ok := difference(r, &r.Cases[0], peak)
	require.True(t, ok)
	require.EqualValues(t, -5, x)
}

// The expected results hold at a small size: the reaction times of C1 to the picosecond, the model of one bottleneck,
// the peaks of an incast.
func TestRows(t *testing.T) {
	wiretest.Once(t)
	wiretest.Alone(t)
	for _, e := range []Experiment{positions, incast} {
		p := Plan{}
		for _, c := range e.Cases(Quick, 1) {
			if e.ID == "C1" { // the first cut alone
				c.Scenario.Warmup, c.Scenario.Duration = 0, 2*ms+200*µs
			}
			p.Cases = append(p.Cases, c)
		}
		r := wiretest.Must(p.Run(t.Context(), "", Quick, func(float64) {}))(t)
		rows := r.Rows()
		require.Len(t, rows, map[string]int{"C1": 5*(3*3+1) + 2*3, "C2": 6}[e.ID])
		for _, row := range rows {
			require.True(t, row.OK(), "%+v", row)
		}
		var out strings.Builder
		require.NoError(t, r.Print(&out))
		require.Contains(t, out.String(), e.ID+": "+e.Title+"\n")
		require.Equal(t, len(rows), strings.Count(out.String(), "  ok"))
		require.Contains(t, out.String(), "seeds 1\n", "with the conditions")
	}
}

// The page of every experiment is whole: nothing in it is taken for dangerous and left out, and each experiment has
// its section, its file and its lines.
func TestPage(t *testing.T) {
	p := Plan{Cases: small()}
	r := wiretest.Must(p.Run(t.Context(), "c0ffee", Quick, func(float64) {}))(t)
	for i := range r.Cases { // as if they were of an experiment that has a place on the page
		r.Cases[i].Experiment = incast.ID
	}
	for i := range r.Runs {
		r.Runs[i].Experiment = incast.ID
	}
	var out strings.Builder
	require.NoError(t, r.Page(&out))
	page := out.String()
	require.NotContains(t, page, "ZgotmplZ")
	require.True(t, strings.HasSuffix(strings.TrimSpace(page), "</html>"))
	require.Contains(t, page, "20 runs at quick size, 5 seeds a case; commit c0ffee.")
	require.Contains(t, page, `<section id="C2">`)
	require.Contains(t, page, `download="C2.csv" href="data:text/csv;base64,`)
	require.Contains(t, page, "RED from 100000 to 400000 octets")
	require.NotContains(t, page, `id="map"`)
	require.NotContains(t, page, "<script")
	r.Cases = append(r.Cases, r.Cases[0])
	require.Equal(t, 10, r.Missing())
}

// A cell of a table is blue or orange if a variant is better or worse than CNPs by more than 5 %, both for a figure of
// which more is better and for one of which less is.
func TestPageCells(t *testing.T) {
	r := &Results{}
	text := wiretest.Must(positions.Cases(Quick, 1)[0].caseText())(t)
	r.Cases = append(r.Cases, text)
	for _, row := range []struct {
		v         lab.Variant
		use, peak float64
	}{{lab.CNP, 80, 100}, {lab.Proxy, 83, 96}, {lab.FastCNP, 85, 94}, {lab.Oracle, 75, 106}} {
		r.Runs = append(r.Runs, Run{Experiment: positions.ID, Case: text.Name, Variant: row.v, Seed: 1,
			Figures: Figures{use: row.use, peak: row.peak}})
	}
	var out strings.Builder
	require.NoError(t, r.Page(&out))
	_, section, _ := strings.Cut(out.String(), `<section id="C1">`)
	var cells []string
	for _, m := range regexp.MustCompile(`<td(?: class="(\w+)")?>(\d+)`).FindAllStringSubmatch(section, -1) {
		cells = append(cells, strings.TrimSpace(m[2]+" "+m[1]))
	}
	require.Equal(t, []string{"80", "83", "85 better", "75 worse", "100", "96", "94 better", "106 worse"}, cells)
}

// The files of a page have its contents: the places of the map, and the verdicts in numbers, each with its line.
func TestFiles(t *testing.T) {
	r := &Results{Commit: "c0ffee", Size: "quick"}
	for _, c := range positions.Cases(Quick, 1) {
		text := wiretest.Must(c.caseText())(t)
		r.Cases = append(r.Cases, text)
		for _, row := range []struct {
			v lab.Variant
			x float64
		}{{lab.CNP, 100}, {lab.FastCNP, 150}} {
			t.Run(fmt.Sprint(row.v), func(t *testing.T) {
				r.Runs = append(r.Runs, Run{Experiment: c.Experiment, Case: c.Name, Variant: row.v, Seed: 1,
					Figures: Figures{peak: row.x}})
			})
		}
	}
	p := r.buildPage()
	rows := func(url template.URL) [][]string {
		text, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(url), "data:text/csv;base64,"))
		require.NoError(t, err)
		return wiretest.Must(csv.NewReader(bytes.NewReader(text)).ReadAll())(t)
	}
	places := rows(p.MapCSV)
	require.Len(t, places, 1+9)
	require.Equal(t, []string{"map", "unit", "hop", "one way", "value", "case", "commit", "line"}, places[0])
	require.Equal(t, []string{"%", "1", "10µs", "150", "one way 10µs, hop 1", "c0ffee"}, places[1][1:7])
	require.Contains(t, places[1][7], "RED from 5000 to 200000 octets")
	verdicts := rows(p.NothingCSV)
	require.Len(t, verdicts, 1+17+17)
	require.Equal(t, []string{"worse", "C1", "one way 10µs, hop 1", peak, "50", "50", "50", "1", "c0ffee"},
		verdicts[1][:9])
	require.Contains(t, verdicts[1][9], "RED from 5000 to 200000 octets")
	require.Equal(t, "no figure is better", verdicts[22][0])
	require.Equal(t, "+50.0 %", p.Worse[0].Change())
	require.Equal(t, "commit", rows(p.RowsCSV)[0][9])
}

// A frontier has no point that is worse than another one in both.
func TestFrontier(t *testing.T) {
	r := &Results{}
	for i, p := range [][2]float64{{90, 100}, {95, 50}, {99, 80}, {99, 70}, {92, 60}, {80, 10}} {
		name := fmt.Sprint(i)
		r.Cases = append(r.Cases, CaseText{Experiment: "C14", Name: name, At: []Coordinate{
			word("network", "incast", 0), number("KMin", 5, "KB"), number("KMax", 20, "KB"), number("PMax", 1, "%"),
		}})
		r.Runs = append(r.Runs, Run{Experiment: "C14", Case: name, Variant: lab.CNP, Seed: 1,
			Figures: Figures{use: p[0], later: p[1]}})
	}
	var got [][2]float64
	for _, p := range r.Frontier("incast", lab.CNP) {
		got = append(got, [2]float64{p.Use, p.Peak})
		require.Equal(t, "KMin 5 KB, KMax 20 KB, PMax 1 %", p.Thresholds())
	}
	require.Equal(t, [][2]float64{{80, 10}, {95, 50}, {99, 70}}, got)

	// A point that is not steady is left out.
	r.Cases[2+1].Scenario = []byte(`{"warmup":"1ms"}`)
	r.Runs[2+1].Halves = map[string][2]float64{later: {70, 90}}
	require.Equal(t, 80., r.Frontier("incast", lab.CNP)[2].Peak)
	require.Empty(t, r.Frontier("incast", lab.Oracle))

	// A link that is always full has a place in the figure.
	full := &Results{Cases: r.Cases[:1], Runs: []Run{{Experiment: "C14", Case: "0", Variant: lab.CNP, Seed: 1,
		Figures: Figures{use: 100, later: 100}}}}
	f, ok := full.frontier("incast")
	require.True(t, ok)
	require.Equal(t, "640.0", f.Curves[0].Points[0].X)
	require.Equal(t, tick{"0.0", "90 %"}, f.XTicks[0])
	require.Empty(t, r.Frontier("WAN far", lab.CNP))
}

// The scenarios shown over time are valid too.
func TestMovings(t *testing.T) {
	for _, m := range movingCases() {
		short, err := Short(m.scenario)
		require.NoError(t, err)
		_, err = scenario.Read(short)
		require.NoError(t, err, "%s", short)
	}
}

// A quantile that a run lacks, as messages that have not ended hide it, has neither a median nor a ratio.
func TestHiddenQuantile(t *testing.T) {
	const figure = "slowdown, 0 to 10 KB, 50 %"
	c := CaseText{Experiment: "C3", Name: "case"}
	run := func(v lab.Variant, seed uint64, f Figures) Run {
		return Run{Experiment: c.Experiment, Case: c.Name, Variant: v, Seed: seed, Figures: f}
	}
	r := Results{Runs: []Run{
		run(lab.CNP, 1, Figures{figure: 4, firstCut: 4}), run(lab.CNP, 2, Figures{}),
		run(lab.FastCNP, 1, Figures{figure: 2, firstCut: 2}), run(lab.FastCNP, 2, Figures{figure: 3, firstCut: 3}),
	}}
	_, _, _, ok := r.Median(&c, lab.CNP, figure)
	require.False(t, ok)
	m, _, _, ok := r.Median(&c, lab.FastCNP, figure)
	require.True(t, ok)
	require.Equal(t, 2.5, m)
	require.Empty(t, r.Ratios(&c, lab.FastCNP, lab.CNP, figure))
	require.Empty(t, r.Ratios(&c, lab.CNP, lab.FastCNP, figure))
	require.Equal(t, []float64{0.5}, r.Ratios(&c, lab.FastCNP, lab.CNP, firstCut), "of the seeds that have both")
	m, _, _, ok = r.Median(&c, lab.CNP, firstCut)
	require.True(t, ok)
	require.EqualValues(t, 4, m)
}
