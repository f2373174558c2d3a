package experiment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/check"
	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/rocecn/rocecn/lab/sim"
)

// Figures are the measurements of a run, by name.
type Figures map[string]float64

// The figures that reports of scenarios do not have.
const (
	later     = "peak after the warmup"
	meanTime  = "completion of a message, mean"
	lastTime  = "completion of a message, 99 %"
	peak      = "peak of the deepest queue"
	use       = "use of its link"
	goodput   = "goodput, all flows"
	firstCut  = "onset to first cut"
	jain      = "Jain's index"
	lost      = "packets lost"
	pauses    = "pauses"
	notified  = "notifications to reaction points"
	octets    = "octets of notifications"
	mean      = "its mean"
	high      = "99 % of the time below"
	finished  = "messages finished"
	remaining = "messages unfinished"
	ended     = "last message ended"
)

// Unit returns the unit of a figure.
func Unit(figure string) string {
	if figure == lastTime {
		return "µs"
	}
	for _, m := range scenario.Metrics() {
		if m.Name == figure {
			return m.Unit
		}
	}
	return ""
}

// runFigures returns the figures of a result that the case's experiment shows.
func (c *Case) runFigures(r *scenario.Result) Figures {
	f := Figures{}
	for _, m := range scenario.Metrics() {
		f[m.Name] = m.Of(r)
	}
	for i := range r.Completion { // of the largest messages, which are those of the experiment
		if x := r.Quantile(r.Completion, i, 0.99); !math.IsNaN(x) {
			f[lastTime] = x / 1000
		}
	}
	maps.DeleteFunc(f, func(_ string, x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
	if c.shown != nil {
		maps.DeleteFunc(f, func(name string, _ float64) bool {
			return !slices.ContainsFunc(c.shown, func(s Shown) bool { return s.Figure == name })
		})
	}
	return f
}

// A Run is one variant of a case with one seed.
type Run struct {
	Experiment string      `json:"experiment"`
	Case       string      `json:"case"`
	Variant    lab.Variant `json:"variant"`
	Seed       uint64      `json:"seed"`
	Figures    Figures     `json:"figures"`

	// Halves has, for each steady figure, its values in the first and the second half of the time after the warmup.
	Halves map[string][2]float64 `json:"halves,omitempty"`

	Port   string `json:"deepest_queue"`
	Print  string `json:"fingerprint"`
	Events uint64 `json:"events"`
}

// Results are the results of the cases of some experiments. They are written as JSON.
type Results struct {
	Commit string     `json:"commit"` // of the program; after Merge those of the cases, with commas
	Size   string     `json:"size"`
	Cases  []CaseText `json:"cases"`
	Runs   []Run      `json:"runs"`

	Series []Series    `json:"series,omitempty"` // runs over time
	Checks []check.Row `json:"checks,omitempty"` // of the laboratory itself

	index   map[key][]int          // of runs, by seed
	changes map[[2]string][]Change // by experiment and figure
}

// A CaseText is the description of a case: everything needed to repeat and to quote it.
type CaseText struct {
	Experiment string            `json:"experiment"`
	Name       string            `json:"name"`
	Commit     string            `json:"commit,omitempty"` // of the program that ran it, if others ran other cases
	At         []Coordinate      `json:"at"`
	Lines      map[string]string `json:"lines"` // by variant
	Scenario   json.RawMessage   `json:"scenario"`
	Seeds      []uint64          `json:"seeds"`
	Variants   []lab.Variant     `json:"variants"`
}

// Coordinate returns a coordinate of the case.
func (c *CaseText) Coordinate(name string) (Coordinate, bool) {
	i := slices.IndexFunc(c.At, func(at Coordinate) bool { return at.Name == name })
	if i < 0 {
		return Coordinate{}, false
	}
	return c.At[i], true
}

type key struct {
	experiment, name string
	variant          lab.Variant
}

// A Plan is the runs of some cases, or a share of them.
type Plan struct {
	Cases     []Case
	Share, Of int      // share 1 to Of; 0 of 0 is everything
	Before    *Results // results of an earlier run, or nil: whole cases in it do not run again

	// Save, if not nil, is called after each case that ran and at the end, with the results so far, and with those of
	// Before that they lack.
	Save func(*Results) error
}

type job struct {
	c       *Case
	variant lab.Variant
	seed    uint64
}

// isOwn reports whether the case of this index is in the share. Every Of-th case is in a share, so that shares take
// about as long as each other.
func (p *Plan) isOwn(i int) bool { return p.Of == 0 || (i+1)%p.Of == p.Share%p.Of }

// Run runs the plan, case after case, as many runs of a case at a time as there are processors. A case with a figure
// that is not steady runs again for twice as long, twice at most. It calls progress with the share that is done.
// If ctx ends, the results are those until then, with the error of ctx. Runs that ended are whole.
func (p *Plan) Run(ctx context.Context, commit string, size Size, progress func(done float64)) (*Results, error) {
	r := &Results{Commit: commit, Size: size.String()}
	var err error
	own, done := 0, 0
	for i := range p.Cases {
		if p.isOwn(i) {
			own++
		}
	}
	commits := []string{commit}
	for i := range p.Cases {
		c := &p.Cases[i]
		var runs []*Run
		var known bool
		text := CaseText{}
		if p.isOwn(i) && err == nil {
			if text, runs, known, err = p.runBefore(c); err != nil {
				return nil, err
			}
			if !known {
				if c, runs, err = c.runSteady(ctx); err != nil && ctx.Err() == nil {
					return nil, err
				}
			}
			done++
			progress(float64(done) / float64(own))
		}
		if text.Name == "" {
			var wrong error
			if text, wrong = c.caseText(); wrong != nil {
				return nil, wrong
			}
		}
		if text.Commit == commit {
			text.Commit = ""
		} else if text.Commit != "" && !slices.Contains(commits, text.Commit) {
			commits = append(commits, text.Commit)
			r.Commit = strings.Join(commits, ", ")
		}
		r.Cases = append(r.Cases, text)
		for _, run := range runs {
			r.Runs = append(r.Runs, *run)
		}
		if p.Save != nil && len(runs) > 0 && !known && err == nil {
			if err := p.save(r); err != nil {
				return nil, err
			}
		}
	}
	if p.Save != nil && err == nil {
		err = p.save(r)
	}
	return r, err
}

// save calls Save with the results so far, and with the cases of the earlier results that have no runs in them, which
// are of other experiments, of other shares, or come later.
func (p *Plan) save(r *Results) error {
	if p.Before == nil {
		return p.Save(r)
	}
	kept := Results{Size: p.Before.Size, Series: p.Before.Series, Checks: p.Before.Checks}
	var commits []string
	for _, c := range p.Before.Cases {
		if !p.Before.hasRuns(&c) || r.hasRuns(&c) {
			continue
		}
		c.Commit = p.Before.commitOf(&c)
		if !slices.Contains(commits, c.Commit) {
			commits = append(commits, c.Commit)
		}
		kept.Cases = append(kept.Cases, c)
	}
	if len(kept.Cases)+len(kept.Series)+len(kept.Checks) == 0 {
		return p.Save(r)
	}
	kept.Commit = cmp.Or(strings.Join(commits, ", "), r.Commit)
	for _, run := range p.Before.Runs {
		if kept.hasCase(run.Experiment, run.Case) {
			kept.Runs = append(kept.Runs, run)
		}
	}
	all, err := Merge([]*Results{r, &kept})
	if err != nil {
		return err
	}
	return p.Save(all)
}

// runBefore returns a case as the plan's earlier results have it, if all its runs are among them.
func (p *Plan) runBefore(c *Case) (text CaseText, runs []*Run, known bool, err error) {
	if p.Before == nil {
		return text, nil, false, nil
	}
	for range maxDoublings + 1 {
		want, err := c.caseText()
		if err != nil {
			return text, nil, false, err
		}
		for i := range p.Before.Cases {
			had := p.Before.Cases[i]
			if had.Experiment != want.Experiment || had.Name != want.Name ||
				string(had.Scenario) != string(want.Scenario) || !slices.Equal(had.Variants, want.Variants) {
				continue
			}
			for j := range p.Before.Runs {
				if run := &p.Before.Runs[j]; run.Experiment == had.Experiment && run.Case == had.Name {
					runs = append(runs, run)
				}
			}
			had.Commit = p.Before.commitOf(&had)
			if len(runs) == len(c.Scenario.Variants)*len(c.Scenario.Seeds) {
				return had, runs, true, nil
			}
			return text, nil, false, nil
		}
		c = c.doubleDuration()
	}
	return text, nil, false, nil
}

// runSteady runs a case until its figures are steady, and returns the case that ran last. If ctx ends, its runs are
// those that have ended.
func (c *Case) runSteady(ctx context.Context) (*Case, []*Run, error) {
	for doubled := 0; ; doubled++ {
		runs, err := c.runOnce(ctx)
		if err != nil || doubled == maxDoublings || !c.drifts(runs) {
			return c, runs, err
		}
		c = c.doubleDuration()
	}
}

// runOnce runs all variants and seeds of a case.
func (c *Case) runOnce(ctx context.Context) (ended []*Run, err error) {
	var jobs []job
	for _, v := range c.Scenario.Variants {
		for _, seed := range c.Scenario.Seeds {
			jobs = append(jobs, job{c, v, seed})
		}
	}
	runs := make([]*Run, len(jobs))
	errs := make([]error, len(jobs))
	scenario.Each(ctx, len(jobs), func(i int) { runs[i], errs[i] = jobs[i].runJob(ctx) })
	for i, run := range runs {
		if err := errs[i]; err != nil && !errors.Is(err, context.Canceled) &&
			!errors.Is(err, context.DeadlineExceeded) {
			j := jobs[i]
			return nil, fmt.Errorf("%s, %s, %v, seed %d: %w", j.c.Experiment, j.c.Name, j.variant, j.seed, err)
		}
		if run != nil {
			ended = append(ended, run)
		}
	}
	return ended, ctx.Err()
}

func (j *job) runJob(ctx context.Context) (*Run, error) {
	s := *j.c.Scenario
	s.Variants, s.Seeds = []lab.Variant{j.variant}, []uint64{j.seed}
	results, err := s.Run(ctx, func(float64) {})
	if err != nil {
		return nil, err
	}
	if len(results) == 0 || results[0].Ended != sim.Time(s.Duration) {
		return nil, context.Canceled
	}
	r := &results[0]
	return &Run{
		Experiment: j.c.Experiment, Case: j.c.Name, Variant: j.variant, Seed: j.seed,
		Figures: j.c.runFigures(r), Halves: j.c.runHalves(r), Port: r.Port,
		Print: fmt.Sprintf("%016x", r.Print), Events: r.Events,
	}, nil
}

// caseText returns the case in words.
func (c *Case) caseText() (CaseText, error) {
	short, err := Short(c.Scenario)
	t := CaseText{
		Experiment: c.Experiment, Name: c.Name, At: c.At, Lines: map[string]string{}, Scenario: short,
		Seeds: c.Scenario.Seeds, Variants: c.Scenario.Variants,
	}
	for _, v := range c.Scenario.Variants {
		t.Lines[v.String()] = c.Scenario.Line(v)
	}
	return t, err
}

// Short returns the JSON of a scenario without default values. [scenario.Read] returns the same scenario.
func Short(s *scenario.Scenario) (json.RawMessage, error) {
	full, err := plainValue(s)
	if err != nil {
		return nil, err
	}
	defaults := scenario.DefaultOf(s.Reaction.Kind)
	defaults.Reaction.Kind = scenario.Default().Reaction.Kind
	usual, err := plainValue(defaults)
	if err != nil {
		return nil, err
	}
	short, _ := withoutUsual(full, usual)
	if traffic, ok := short.(map[string]any)["traffic"].([]any); ok {
		none, err := plainValue(scenario.Traffic{})
		if err != nil {
			return nil, err
		}
		for i := range traffic {
			traffic[i], _ = withoutUsual(traffic[i], none)
		}
	}
	return json.Marshal(short)
}

// plainValue returns a value as maps, lists, texts and numbers.
func plainValue(v any) (out any, err error) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

// withoutUsual returns a value without the members that are the same in another one, and whether all are.
func withoutUsual(v, usual any) (rest any, same bool) {
	members, ok := v.(map[string]any)
	if !ok {
		a, errA := json.Marshal(v)
		b, errB := json.Marshal(usual)
		return v, errA == nil && errB == nil && string(a) == string(b)
	}
	other, _ := usual.(map[string]any)
	out := map[string]any{}
	for name, m := range members {
		if rest, same := withoutUsual(m, other[name]); !same {
			out[name] = rest
		}
	}
	return out, len(out) == 0
}

// Merge puts together results: shares of one plan, and different experiments. It is an error if they are of
// different sizes, if a case was run by programs of different commits, if a run is in two of them that say different
// things, or if scenarios of a case differ.
func Merge(all []*Results) (*Results, error) {
	if len(all) == 0 {
		return nil, errors.New("no results")
	}
	m := &Results{Size: all[0].Size}
	var commits []string
	type caseID struct{ experiment, name string }
	order := map[caseID]int{}
	ran := map[caseID]bool{}
	type runID struct {
		caseID
		variant lab.Variant
		seed    uint64
	}
	prints := map[runID]string{}
	for i, r := range all {
		if r.Size != m.Size {
			return nil, fmt.Errorf("results %d are of size %s, not %s", i+1, r.Size, m.Size)
		}
		for _, commit := range strings.Split(r.Commit, ", ") {
			if !slices.Contains(commits, commit) {
				commits = append(commits, commit)
			}
		}
		for _, c := range r.Cases {
			c.Commit = r.commitOf(&c)
			id := caseID{c.Experiment, c.Name}
			at, known := order[id]
			if !known {
				order[id] = len(m.Cases)
				m.Cases = append(m.Cases, c)
				ran[id] = r.hasRuns(&c)
				continue
			}
			switch first := &m.Cases[at]; { // a share has cases of other shares, without their runs
			case !r.hasRuns(&c):
			case !ran[id]:
				*first, ran[id] = c, true
			case string(first.Scenario) != string(c.Scenario):
				return nil, fmt.Errorf("%s, %s: different scenarios", c.Experiment, c.Name)
			case first.Commit != c.Commit:
				return nil, fmt.Errorf("%s, %s: of commits %s and %s", c.Experiment, c.Name, first.Commit, c.Commit)
			}
		}
		for _, run := range r.Runs {
			id := runID{caseID{run.Experiment, run.Case}, run.Variant, run.Seed}
			if _, known := order[id.caseID]; !known {
				return nil, fmt.Errorf("%s, %s: a run of no case", run.Experiment, run.Case)
			}
			print, there := prints[id]
			if there && print != run.Print {
				return nil, fmt.Errorf("%s, %s, %v, seed %d: two different runs", run.Experiment, run.Case, run.Variant,
					run.Seed)
			}
			if !there {
				prints[id] = run.Print
				m.Runs = append(m.Runs, run)
			}
		}
		if len(m.Series) == 0 {
			m.Series = r.Series
		}
		if len(m.Checks) == 0 {
			m.Checks = r.Checks
		}
	}
	m.Commit = strings.Join(commits, ", ")
	if len(commits) == 1 {
		for i := range m.Cases {
			m.Cases[i].Commit = ""
		}
	}
	slices.SortStableFunc(m.Runs, func(a, b Run) int {
		i, j := order[caseID{a.Experiment, a.Case}], order[caseID{b.Experiment, b.Case}]
		if i != j {
			return i - j
		}
		if a.Variant != b.Variant {
			return int(a.Variant) - int(b.Variant)
		}
		return int(int64(a.Seed) - int64(b.Seed))
	})
	return m, nil
}

// commitOf returns the commit of the program that ran a case: its own, or the first of the results.
func (r *Results) commitOf(c *CaseText) string {
	if c.Commit != "" {
		return c.Commit
	}
	first, _, _ := strings.Cut(r.Commit, ", ")
	return first
}

// hasCase reports whether the results have a case.
func (r *Results) hasCase(experiment, name string) bool {
	return slices.ContainsFunc(r.Cases, func(c CaseText) bool { return c.Experiment == experiment && c.Name == name })
}

// hasRuns reports whether there is a run of a case.
func (r *Results) hasRuns(c *CaseText) bool {
	return slices.ContainsFunc(r.Runs, func(run Run) bool {
		return run.Experiment == c.Experiment && run.Case == c.Name
	})
}

// Missing returns the number of missing runs of the cases.
func (r *Results) Missing() int {
	all := 0
	for i := range r.Cases {
		all += len(r.Cases[i].Variants) * len(r.Cases[i].Seeds)
	}
	return all - len(r.Runs)
}

// selectRuns returns the runs of a case and variant, by seed.
func (r *Results) selectRuns(c *CaseText, v lab.Variant) []int {
	if r.index == nil {
		r.index = map[key][]int{}
		for i := range r.Runs {
			run := &r.Runs[i]
			k := key{run.Experiment, run.Case, run.Variant}
			r.index[k] = append(r.index[k], i)
		}
		for _, list := range r.index {
			slices.SortFunc(list, func(i, j int) int { return int(int64(r.Runs[i].Seed) - int64(r.Runs[j].Seed)) })
		}
	}
	return r.index[key{c.Experiment, c.Name, v}]
}

// Values returns a figure of all seeds; runs without it are left out.
func (r *Results) Values(c *CaseText, v lab.Variant, figure string) (values []float64) {
	for _, i := range r.selectRuns(c, v) {
		if x, ok := r.Runs[i].Figures[figure]; ok {
			values = append(values, x)
		}
	}
	return values
}

// Median returns the median of a figure, and the bounds that [lab.Median] gives. ok is false without any value, and of
// a quantile that a run lacks.
func (r *Results) Median(c *CaseText, v lab.Variant, figure string) (m, from, to float64, ok bool) {
	values := r.Values(c, v, figure)
	if len(values) == 0 || isQuantile(figure) && len(values) < len(r.selectRuns(c, v)) {
		return 0, 0, 0, false
	}
	m, from, to = lab.Median(values)
	return m, from, to, true
}

// isQuantile reports whether a figure is a quantile of messages. A run has no such figure if an unfinished message may
// be the quantile: the remaining runs would then look better than all of them.
func isQuantile(figure string) bool { return strings.HasSuffix(figure, " %") }

// Ratios returns a figure of a variant divided by the same of another one, seed by seed.
func (r *Results) Ratios(c *CaseText, v, than lab.Variant, figure string) (ratios []float64) {
	for _, p := range r.figurePairs(c, v, c, than, figure) {
		if p[1] != 0 {
			ratios = append(ratios, p[0]/p[1])
		}
	}
	return ratios
}

// figurePairs returns a figure of a variant in a case, and of another one, of each seed that has both: they saw the
// same random numbers. There are none of a quantile that a run lacks.
func (r *Results) figurePairs(c *CaseText, v lab.Variant, d *CaseText, than lab.Variant, figure string) (
	all [][2]float64) {
	other := map[uint64]float64{}
	for _, i := range r.selectRuns(d, than) {
		if x, ok := r.Runs[i].Figures[figure]; ok {
			other[r.Runs[i].Seed] = x
		}
	}
	for _, i := range r.selectRuns(c, v) {
		x, ok := r.Runs[i].Figures[figure]
		if y, there := other[r.Runs[i].Seed]; ok && there {
			all = append(all, [2]float64{x, y})
		} else if isQuantile(figure) {
			return nil
		}
	}
	return all
}

// In returns the cases of an experiment.
func (r *Results) In(experiment string) (cases []*CaseText) {
	for i := range r.Cases {
		if r.Cases[i].Experiment == experiment {
			cases = append(cases, &r.Cases[i])
		}
	}
	return cases
}
