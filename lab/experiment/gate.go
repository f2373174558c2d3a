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
	Start     Steadiness = iota // the figure includes the start of the run, or is of messages
	Unchecked                   // the runs have no halves
	InSteady                    // the halves agree
	NotSteady                   // they do not: the figure must not be quoted
)

// drift is the difference between two halves, as a share of the figure, up to which it is steady.
const drift = 0.02

// maxDoublings is the number of times that the warmup of a case is doubled until its figures are steady.
const maxDoublings = 2

// isSteadyFigure reports whether a figure is of the time after the warmup.
func isSteadyFigure(figure string) bool {
	return slices.ContainsFunc(scenario.Metrics(), func(m scenario.Metric) bool {
		return m.Name == figure && m.Steady != nil
	})
}

// halvesAgree reports whether the halves of a figure agree, one pair for each seed: the median of their differences is
// at most 2 % of the median of the figure, or its bounds include 0.
func halvesAgree(halves [][2]float64) bool {
	var differences, middles []float64
	for _, h := range halves {
		differences = append(differences, h[1]-h[0])
		middles = append(middles, (h[0]+h[1])/2)
	}
	d, from, to := lab.Median(differences)
	size, _, _ := lab.Median(middles)
	return math.Abs(d) <= drift*math.Abs(size) || from <= 0 && 0 <= to && from < to
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
	switch {
	case len(halves) == 0:
		return Unchecked
	case halvesAgree(halves):
		return InSteady
	}
	return NotSteady
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

// isSteady reports whether all figures of the runs of a case are steady.
func (c *Case) isSteady(runs []*Run) bool {
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
		if !halvesAgree(halves) {
			return false
		}
	}
	return true
}

// doubleWarmup returns the case with twice the warmup, and as long a measurement after it.
func (c *Case) doubleWarmup() *Case {
	twice, s := *c, *c.Scenario
	s.Warmup, s.Duration = 2*s.Warmup, s.Duration+s.Warmup
	twice.Scenario = &s
	return &twice
}
