package experiment

import (
	"bytes"
	"math"
	"slices"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/scenario"
)

// Steadiness is the result of the comparison of the two halves of the time in which a figure is measured.
type Steadiness uint8

// The results.
const (
	Start       Steadiness = iota // the figure includes the start of the run, or is of messages
	Unchecked                     // the runs have no halves
	InSteady                      // the halves agree
	NotSteady                     // they do not: the figure must not be quoted
	TooFewSeeds                   // the seeds are too few, or differ too much, to judge; the figure must not be quoted
)

// IsShown reports whether a comparison may use the figure: it has no known fault.
func (s Steadiness) IsShown() bool { return s != NotSteady && s != TooFewSeeds }

// mark returns the mark after a figure that nothing shows to be steady.
func (s Steadiness) mark() string {
	switch s {
	case Unchecked:
		return " †"
	case TooFewSeeds:
		return " ‡"
	}
	return ""
}

// drift is the difference between two halves, as a share of the figure, up to which it is steady.
const drift = 0.02

// blur is the difference between two halves, as a share of the figure, that the bounds of the median must exclude:
// otherwise any two halves would agree if only the seeds differ enough.
const blur = 0.1

// fewestSeeds is the number of seeds from which on the bounds of [lab.Median] have a probability of 95 %.
const fewestSeeds = 6

// maxDoublings is the number of times that the duration of a case is doubled until its figures are steady.
const maxDoublings = 2

// isSteadyFigure reports whether a figure is of the time after the warmup.
func isSteadyFigure(figure string) bool {
	return slices.ContainsFunc(scenario.Metrics(), func(m scenario.Metric) bool {
		return m.Name == figure && m.Steady != nil
	})
}

// judgeHalves compares the halves of a figure, one pair for each seed. They do not agree if the median of their
// differences is above 2 % of the median of the figure, and its bounds exclude 0. Otherwise they agree, unless there
// are fewer than six seeds, or the bounds reach 10 % of the figure.
func judgeHalves(halves [][2]float64) Steadiness {
	if len(halves) == 0 {
		return Unchecked
	}
	var differences, middles []float64
	for _, h := range halves {
		differences = append(differences, h[1]-h[0])
		middles = append(middles, (h[0]+h[1])/2)
	}
	d, from, to := lab.Median(differences)
	size, _, _ := lab.Median(middles)
	size = math.Abs(size)
	switch {
	case math.Abs(d) > drift*size && (from > 0 || to < 0):
		return NotSteady
	case len(halves) < fewestSeeds || max(-from, to) > blur*size:
		return TooFewSeeds
	}
	return InSteady
}

// isWarmed reports whether the case is measured after a warmup.
func (c *CaseText) isWarmed() bool { return bytes.Contains(c.Scenario, []byte(`"warmup":`)) }

// Steadiness returns the steadiness of a figure of a variant in a case.
func (r *Results) Steadiness(c *CaseText, v lab.Variant, figure string) Steadiness {
	if !c.isWarmed() || !isSteadyFigure(figure) {
		return Start
	}
	var halves [][2]float64
	for _, i := range r.selectRuns(c, v) {
		if h, ok := r.Runs[i].Halves[figure]; ok {
			halves = append(halves, h)
		}
	}
	return judgeHalves(halves)
}

// runHalves returns the halves of the steady figures that the case's experiment shows.
func (c *Case) runHalves(r *scenario.Result) map[string][2]float64 {
	if c.Scenario.Warmup == 0 {
		return nil
	}
	halves := map[string][2]float64{}
	for _, m := range scenario.Metrics() {
		if m.Steady == nil || c.shown != nil && !slices.ContainsFunc(c.shown, func(s Shown) bool {
			return s.Figure == m.Name
		}) {
			continue
		}
		h := [2]float64{m.Steady(&r.Halves[0]), m.Steady(&r.Halves[1])}
		if !math.IsNaN(h[0]) && !math.IsNaN(h[1]) {
			halves[m.Name] = h
		}
	}
	return halves
}

// drifts reports whether a figure of the runs of a case is not steady. A longer run does not help against too few
// seeds.
func (c *Case) drifts(runs []*Run) bool {
	type id struct {
		variant lab.Variant
		figure  string
	}
	all := map[id][][2]float64{}
	for _, run := range runs {
		for figure, h := range run.Halves {
			all[id{run.Variant, figure}] = append(all[id{run.Variant, figure}], h)
		}
	}
	for _, halves := range all {
		if judgeHalves(halves) == NotSteady {
			return true
		}
	}
	return false
}

// doubleDuration returns the case with twice the warmup, and twice the measurement after it: senders that oscillate
// together do so in every seed, and the halves of a short measurement contain different parts of a period.
func (c *Case) doubleDuration() *Case {
	twice, s := *c, *c.Scenario
	s.Warmup, s.Duration = 2*s.Warmup, 2*s.Duration
	twice.Scenario = &s
	return &twice
}
