package experiment

import (
	"cmp"
	"math"
	"slices"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/scenario"
)

// A Change is the difference of a figure between a variant and its baseline, seed by seed. Both saw the same random
// numbers.
type Change struct {
	Case        *CaseText
	Variant     lab.Variant
	Baseline    lab.Variant
	Percent     bool    // of the baseline; otherwise in the unit of the figure, because the baseline is 0 in a seed
	Median      float64 // of all seeds
	From, To    float64 // bounds of the median, as of [lab.Median]
	P           float64 // of a paired t-test, two-sided; NaN of a single seed
	AdjustedP   float64 // P after Holm's correction over the comparisons of the figure in the experiment
	Seeds       int
	Comparisons int // number of comparisons over which AdjustedP is corrected, without those of a single seed
}

// significance is the probability of at least one false difference among the comparisons of a figure.
const significance = 0.05

// Significant reports whether AdjustedP is below 5 %.
func (c *Change) Significant() bool { return c.AdjustedP < significance }

// String returns a text such as "+2.9 % (1.2…4.4)", with "n.s." if the difference is not significant.
func (c *Change) String() string {
	unit := ""
	if c.Percent {
		unit = " %"
	}
	text := formatSigned(c.Median) + unit
	if c.From != c.To {
		text += " (" + scenario.Figure(roundDigits(c.From)) + "…" + scenario.Figure(roundDigits(c.To)) + ")"
	}
	if !c.Significant() {
		text += " n.s."
	}
	return text
}

// formatSigned returns a number with its sign.
func formatSigned(x float64) string {
	text := scenario.Figure(roundDigits(x))
	if x > 0 && text != "0" {
		text = "+" + text
	}
	return text
}

// roundDigits returns a number with three digits, and no more than two after the point.
func roundDigits(x float64) float64 {
	if x == 0 {
		return 0
	}
	unit := math.Pow(10, max(math.Floor(math.Log10(math.Abs(x)))-2, -2))
	return math.Round(x/unit) * unit
}

// findBaseline returns the variant with which a variant of a case is compared, and reports whether there is one: HPCC
// for the other variants of HPCC, otherwise CNP.
func (c *CaseText) findBaseline(v lab.Variant) (than lab.Variant, ok bool) {
	than = lab.CNP
	if v.HPCC() && v != lab.HPCC {
		than = lab.HPCC
	}
	return than, v != than && slices.Contains(c.Variants, than) && slices.Contains(c.Variants, v)
}

// Changes returns the changes of a figure in all cases of an experiment: of each variant in each case from its
// baseline. Holm's correction is over all of them, and over no other figure or experiment. Figures that leave out
// unfinished messages, and figures of which steadiness is denied or cannot be judged, are not compared.
func (r *Results) Changes(experiment, figure string) (all []Change) {
	for _, c := range r.In(experiment) {
		for _, v := range c.Variants {
			if change, ok := r.computeChange(c, v, figure); ok {
				all = append(all, change)
			}
		}
	}
	var tests []float64
	for i := range all {
		tests = append(tests, all[i].P)
	}
	n := 0
	for _, p := range tests {
		if !math.IsNaN(p) {
			n++
		}
	}
	for i, p := range correctHolm(tests) {
		all[i].AdjustedP, all[i].Comparisons = p, n
	}
	return all
}

// Change returns the change of a figure of a variant in a case, and reports whether there is one.
func (r *Results) Change(c *CaseText, v lab.Variant, figure string) (change Change, ok bool) {
	id := [2]string{c.Experiment, figure}
	if _, known := r.changes[id]; !known {
		if r.changes == nil {
			r.changes = map[[2]string][]Change{}
		}
		r.changes[id] = r.Changes(c.Experiment, figure)
	}
	i := slices.IndexFunc(r.changes[id], func(x Change) bool { return x.Case == c && x.Variant == v })
	if i < 0 {
		return Change{}, false
	}
	return r.changes[id][i], true
}

// computeChange is Change without the correction.
func (r *Results) computeChange(c *CaseText, v lab.Variant, figure string) (change Change, ok bool) {
	than, ok := c.findBaseline(v)
	if !ok || !r.Steadiness(c, v, figure).IsShown() || !r.Steadiness(c, than, figure).IsShown() {
		return change, false
	}
	_, unfinished := r.countUnfinished(c, v, figure)
	_, unfinishedThan := r.countUnfinished(c, than, figure)
	pairs := r.figurePairs(c, v, c, than, figure)
	if len(pairs) == 0 || unfinished+unfinishedThan > 0 {
		return change, false
	}
	change = Change{Case: c, Variant: v, Baseline: than, Percent: true, Seeds: len(pairs)}
	for _, p := range pairs {
		change.Percent = change.Percent && p[1] != 0
	}
	var differences []float64
	for _, p := range pairs {
		d := p[0] - p[1]
		if change.Percent {
			d = (p[0]/p[1] - 1) * 100
		}
		differences = append(differences, d)
	}
	change.Median, change.From, change.To = lab.Median(differences)
	change.P = pairedP(differences)
	return change, true
}

// pairedP returns the two-sided probability of a mean as far from 0, by Student's paired t-test. A rank test would have
// no use here: that of ten seeds cannot be below 2/1024, which no correction over more than 25 comparisons leaves
// significant. It is NaN of fewer than two differences, and of equal ones it is 0, or 1 if they are 0.
func pairedP(differences []float64) float64 {
	n := float64(len(differences))
	if n < 2 {
		return math.NaN()
	}
	mean, squares := 0., 0.
	for _, d := range differences {
		mean += d / n
	}
	for _, d := range differences {
		squares += float64((d - mean) * (d - mean))
	}
	switch {
	case mean == 0:
		return 1
	case squares == 0:
		return 0
	}
	return studentTail(mean/math.Sqrt(squares/(n-1)/n), len(differences)-1)
}

// studentTail returns the probability that Student's t with n degrees of freedom is farther from 0 than t, by the
// finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4.
func studentTail(t float64, n int) float64 {
	angle := math.Atan(math.Abs(t) / math.Sqrt(float64(n)))
	cosine, sine := math.Cos(angle), math.Sin(angle)
	term, sum, first := 1., 0., 1
	if n%2 == 1 {
		term, first = cosine, 2
	}
	for k := first; k < n; k += 2 { // each term is the one before times k/(k+1) cos²
		sum += term
		term *= float64(k) / float64(k+1) * cosine * cosine
	}
	inside := sine * sum
	if n%2 == 1 {
		inside = 2 / math.Pi * (angle + inside)
	}
	return min(max(1-inside, 0), 1)
}

// correctHolm returns the probabilities of several tests after Holm's correction ("A simple sequentially rejective
// multiple test procedure", 1979). NaN is that of no test, and stays.
func correctHolm(tests []float64) []float64 {
	adjusted := slices.Clone(tests)
	var order []int
	for i, p := range tests {
		if !math.IsNaN(p) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(tests[i], tests[j]) })
	most := 0.
	for rank, i := range order {
		most = max(most, min(tests[i]*float64(len(order)-rank), 1))
		adjusted[i] = most
	}
	return adjusted
}
