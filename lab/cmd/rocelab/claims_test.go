package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/experiment"
)

// A claim is the part of a sentence of docs/results.md that results can contradict:
//
//	<!-- claim C1 | one way 100µs, hop 1 | use of its link | cnp 84.0 | Δ fastcnp +17.6 % -->
//
// It follows the sentence, which has the name of the experiment and all numbers. Figures have the digits of the
// sentence. Δ is the difference from the baseline, seed by seed: with a number it has to be significant, "n.s." means
// that it is not, and "within 2 %" that its bounds are. "cnp ÷ none 2.4" is the median of the ratios, seed by seed, and
// "cnp ÷ none +140 %" that of the differences. All of these numbers may have their bounds after them: "(1.9…2.7)". If
// the bounds of a ratio include no difference, the sentence has "significant", "include 0" or "include 1", and if
// messages have not ended, "unfinished" or "have not ended". A sentence with "n.s." or "within" has "significant" or
// "no difference", and one with a negative Δ a word such as "lower". "cnp 5…74" are the least and the largest figure of
// a seed. "in 3 of 6 seeds" is the number of seeds with a figure above 0, also if their median is not steady; it has no
// Δ. "claim full" is about full.json. A figure of a run without halves has † in the sentence.
type claim struct {
	text   string // of the paragraph before it
	full   bool
	id     string
	name   string // of the case
	figure string
	checks []string
}

var claimComment = regexp.MustCompile(`(?s)<!-- claim (.*?) -->`)

// readClaims returns the claims of a document, each with the text since the last blank line or claim before it.
func readClaims(t *testing.T, text string) (claims []claim) {
	t.Helper()
	from := 0
	for _, at := range claimComment.FindAllStringSubmatchIndex(text, -1) {
		before := text[from:at[0]]
		if strings.TrimSpace(before) != "" {
			if i := strings.LastIndex(strings.TrimSpace(before), "\n\n"); i >= 0 {
				before = strings.TrimSpace(before)[i:]
			}
		} else { // a further claim about the same sentence
			before = claims[len(claims)-1].text
		}
		from = at[1]
		parts := strings.Split(unwrap(text[at[2]:at[3]]), " | ")
		require.GreaterOrEqual(t, len(parts), 4, parts)
		c := claim{text: before, name: parts[1], figure: parts[2], checks: parts[3:]}
		c.id, c.full = strings.CutPrefix(parts[0], "full ")
		claims = append(claims, c)
	}
	return claims
}

// check returns an error if the results contradict the claim.
func (c *claim) check(r *experiment.Results) error {
	var text *experiment.CaseText
	for _, one := range r.In(c.id) {
		if one.Name == c.name {
			text = one
		}
	}
	switch {
	case text == nil:
		return fmt.Errorf("%s has no case %q", c.id, c.name)
	case !strings.Contains(c.text, c.id):
		return fmt.Errorf("the sentence does not name %s: %s", c.id, c.text)
	}
	for _, check := range c.checks {
		if err := c.checkOne(r, text, check); err != nil {
			return fmt.Errorf("%s: %w", check, err)
		}
	}
	return nil
}

func (c *claim) checkOne(r *experiment.Results, text *experiment.CaseText, check string) error {
	words := strings.Fields(check)
	changes := words[0] == "Δ"
	if changes {
		words = words[1:]
	}
	var v lab.Variant
	if err := v.UnmarshalText([]byte(words[0])); err != nil {
		return err
	}
	words = words[1:]
	steady := r.Steadiness(text, v, c.figure)
	var than lab.Variant
	divides := len(words) > 1 && words[0] == "÷"
	if divides {
		if err := than.UnmarshalText([]byte(words[1])); err != nil {
			return err
		}
		words = words[2:]
		if other := r.Steadiness(text, than, c.figure); steady == experiment.InSteady || !other.IsShown() {
			steady = other
		}
	}
	rest := strings.Join(words, " ")
	counts := strings.HasSuffix(rest, " seeds")
	switch {
	case counts && changes:
		return fmt.Errorf("number of seeds of a difference: want that of a figure, without Δ")
	case steady == experiment.Unchecked && !strings.Contains(c.text, "†"):
		return fmt.Errorf("not checked for steady state: want † in the sentence")
	case counts:
		return c.compareSeeds(r.Values(text, v, c.figure), rest)
	case steady == experiment.NotSteady:
		return fmt.Errorf("not steady")
	case steady == experiment.TooFewSeeds:
		return fmt.Errorf("too few seeds to judge whether it is steady")
	}
	switch {
	case divides:
		return c.compareRatios(r, text, v, than, rest)
	case changes:
		return c.compareChange(r, text, v, rest)
	}
	return c.compareFigure(r, text, v, rest)
}

// compareFigure compares a figure, as in "2.4", "2.4 (1.9…2.7)" or "5…74".
func (c *claim) compareFigure(r *experiment.Results, text *experiment.CaseText, v lab.Variant, want string) error {
	m, from, to, ok := r.Median(text, v, c.figure)
	if !ok {
		return fmt.Errorf("no figure")
	}
	if least, most, ranges := strings.Cut(want, "…"); ranges && !strings.Contains(want, "(") {
		values := r.Values(text, v, c.figure)
		return errors.Join(c.compare(slices.Min(values), least), c.compare(slices.Max(values), most))
	}
	return c.compareBounds(m, from, to, want)
}

// compareRatios compares the ratios of a figure of two variants, seed by seed, as in "2.4" or "+140 % (90…170)".
func (c *claim) compareRatios(r *experiment.Results, text *experiment.CaseText, v, than lab.Variant, want string,
) error {
	ratios, equal := r.Ratios(text, v, than, c.figure), 1.
	if strings.Contains(want, " %") {
		equal = 0
		for i := range ratios {
			ratios[i] = 100 * (ratios[i] - 1)
		}
	}
	if len(ratios) == 0 {
		return fmt.Errorf("no seed has both figures")
	}
	m, from, to := lab.Median(ratios)
	switch {
	case c.hasUnfinished(r, text, v, than) && !unfinishedMessage.MatchString(c.text):
		return fmt.Errorf("messages are unfinished: want this in the sentence: %s", c.text)
	case from <= equal && equal <= to && !undecidedWords.MatchString(c.text):
		return fmt.Errorf("bounds %v to %v include no difference: want this in the sentence: %s", from, to, c.text)
	}
	return c.compareBounds(m, from, to, strings.Replace(want, " %", "", 1))
}

// compareChange compares the difference from the baseline, as in "−4.0 %", "n.s." or "within 2 %".
func (c *claim) compareChange(r *experiment.Results, text *experiment.CaseText, v lab.Variant, want string) error {
	change, ok := r.Change(text, v, c.figure)
	switch {
	case (want == "n.s." || want == "within 2 %") && !insignificance.MatchString(c.text):
		return fmt.Errorf("want \"significant\" or \"no difference\" in the sentence: %s", c.text)
	case want == "n.s.":
		if !ok || change.Significant() {
			return fmt.Errorf("significant: %v", &change)
		}
		return nil
	case want == "within 2 %":
		if !ok || !change.Percent || change.From < -2 || change.To > 2 {
			return fmt.Errorf("not within: %v", &change)
		}
		return nil
	case !ok:
		return fmt.Errorf("no difference")
	case !change.Significant():
		return fmt.Errorf("not significant: %v", &change)
	case change.Percent != strings.Contains(want, " %"):
		return fmt.Errorf("want the same unit: %v", &change)
	case change.Median < 0 && !lowerWords.MatchString(c.text):
		return fmt.Errorf("want a word such as \"lower\", or −, in the sentence: %s", c.text)
	}
	return c.compareBounds(change.Median, change.From, change.To, strings.Replace(want, " %", "", 1))
}

// hasUnfinished reports whether messages of one of the variants have not ended, where the figure is about their ends.
func (c *claim) hasUnfinished(r *experiment.Results, text *experiment.CaseText, variants ...lab.Variant) bool {
	if !strings.Contains(c.figure, "ended") && !strings.Contains(c.figure, "completion") {
		return false
	}
	for _, v := range variants {
		if slices.ContainsFunc(r.Values(text, v, "messages unfinished"), func(x float64) bool { return x > 0 }) {
			return true
		}
	}
	return false
}

// compareBounds returns an error if a median does not round to a number of the sentence, such as "2.4" or
// "2.4 (1.9…2.7)", or its bounds do not.
func (c *claim) compareBounds(m, from, to float64, text string) error {
	number, bounds, some := strings.Cut(text, " (")
	err := c.compare(m, number)
	if !some {
		return err
	}
	low, high, ok := strings.Cut(strings.TrimSuffix(bounds, ")"), "…")
	if !ok {
		return fmt.Errorf("bounds %q: want two", bounds)
	}
	return errors.Join(err, c.compare(from, low), c.compare(to, high))
}

// compareSeeds returns an error if the number of values above 0 is not that of the sentence.
func (c *claim) compareSeeds(values []float64, seeds string) error {
	above := 0
	for _, x := range values {
		if x > 0 {
			above++
		}
	}
	if have := fmt.Sprintf("in %d of %d seeds", above, len(values)); seeds != have {
		return fmt.Errorf("results have a figure above 0 %s", have)
	}
	if !strings.Contains(unwrap(c.text), seeds) {
		return fmt.Errorf("the sentence does not have this number of seeds: %s", c.text)
	}
	return nil
}

// hasNumber reports whether a text has a number that is not a part of a longer one: 4.0 is not in 14.0 or 4.05.
func hasNumber(text, number string) bool {
	return regexp.MustCompile(`(^|[^\d.,])` + regexp.QuoteMeta(number) + `($|[^\d.,]|[.,]($|\D))`).MatchString(text)
}

// words of a sentence about a lower figure, about one without a significant difference, about bounds on both sides of
// no difference, and about messages that have not ended.
var (
	lowerWords        = regexp.MustCompile(`\b(lower|less|fewer|earlier|shorter|smaller)\b|−`)
	insignificance    = regexp.MustCompile(`significant|no difference`)
	undecidedWords    = regexp.MustCompile(`significant|includes? [01]\b`)
	unfinishedMessage = regexp.MustCompile(`unfinished|have not ended`)
)

// compare returns an error if a figure does not round to a number of the sentence.
func (c *claim) compare(x float64, number string) error {
	want, err := strconv.ParseFloat(strings.Replace(number, "−", "-", 1), 64)
	if err != nil {
		return err
	}
	_, decimals, _ := strings.Cut(number, ".")
	half := 0.5001
	for range decimals {
		half /= 10
	}
	switch {
	case x < want-half || x > want+half:
		return fmt.Errorf("results have %v", x)
	case !hasNumber(c.text, strings.TrimLeft(number, "+−")):
		return fmt.Errorf("the sentence does not have this number: %s", c.text)
	}
	return nil
}

// Every item of the summary has a claim, and the results have the signs and the sizes of all claims. Figures without a
// claim are not compared.
func TestClaims(t *testing.T) {
	text := readPage(t)
	quick := results(t, "../../docs/results/quick.json", "quick")
	full := results(t, "../../docs/results/full.json", "full")
	claims := readClaims(t, text)
	require.Greater(t, len(claims), 20)
	for i, c := range claims {
		t.Run(fmt.Sprintf("%d %s %s", i, c.id, c.name), func(t *testing.T) {
			r := quick
			if c.full {
				r = full
			}
			require.NoError(t, c.check(r))
		})
	}
	_, summary, ok := strings.Cut(text, "\n## Summary\n")
	require.True(t, ok)
	summary, _, ok = strings.Cut(summary, "\n## ")
	require.True(t, ok)
	items := regexp.MustCompile(`(?m)^(\d+\. |\* )`).Split(summary, -1)[1:]
	require.Greater(t, len(items), 6)
	for _, item := range items {
		require.Regexp(t, claimComment, item, "an item without a claim")
	}
}

// The published results are within the bounds of all rows that an experiment compares with a closed form or the
// separate model, and those of C1a within 4 % of the model, as the document says.
func TestPublishedRows(t *testing.T) {
	for _, c := range []struct {
		size string
		want map[string]int
	}{
		{"quick", map[string]int{"B3": 2, "C1": 56, "C1a": 24, "C2": 6}},
		{"full", map[string]int{"B3": 2, "C1": 99, "C1a": 40, "C2": 6}},
	} {
		t.Run(c.size, func(t *testing.T) {
			counts := map[string]int{}
			for _, row := range results(t, "../../docs/results/"+c.size+".json", c.size).Rows() {
				counts[row.Check]++
				require.True(t, row.OK(), "%+v", row)
				if row.Check == "C1a" {
					require.InEpsilon(t, row.Expected, row.Measured, 0.04, "%+v", row)
				}
			}
			require.Equal(t, c.want, counts)
		})
	}
}

// The document lists, as "8 of 12 of C2", the experiments with cases that have other than six seeds, or a run after a
// warmup without halves, of which nothing shows that it is steady.
func TestExceptions(t *testing.T) {
	text := unwrap(readPage(t))
	quick := results(t, "../../docs/results/quick.json", "quick")
	var want []string
	for _, e := range experiment.All() {
		seeds, unchecked := 0, 0
		cases := quick.In(e.ID)
		for _, c := range cases {
			if len(c.Seeds) != 6 {
				require.Len(t, c.Seeds, 10, "%s, %s: want six or ten seeds", c.Experiment, c.Name)
				seeds++
			}
			if slices.ContainsFunc(quick.Runs, func(run experiment.Run) bool {
				lacksHalves := run.Experiment == e.ID && run.Case == c.Name && len(run.Halves) == 0
				for figure := range run.Figures {
					if lacksHalves && quick.Steadiness(c, run.Variant, figure) == experiment.Unchecked {
						return true
					}
				}
				return false
			}) {
				unchecked++
			}
		}
		for _, n := range []int{seeds, unchecked} {
			if n > 0 {
				want = append(want, fmt.Sprintf("%d of %d of %s", n, len(cases), e.ID))
			}
		}
	}
	require.NotEmpty(t, want)
	require.ElementsMatch(t, want, regexp.MustCompile(`\d+ of \d+ of (?:C\d+[a-z]?|B3)\b`).FindAllString(text, -1))
	commits := map[string]bool{}
	for _, c := range quick.Cases {
		commits[c.Commit] = true
	}
	require.Contains(t, text, fmt.Sprintf("The cases are of %d commits;", len(commits)))
}

// A claim fails on each way in which results can contradict it.
func TestWrongClaims(t *testing.T) {
	r := &experiment.Results{Cases: []experiment.CaseText{{
		Experiment: "X", Name: "a", Scenario: []byte(`{"warmup":"1ms"}`),
		Variants: []lab.Variant{lab.CNP, lab.FastCNP, lab.Oracle, lab.FCN},
	}}}
	const figure = "use of its link"
	for seed := range 6 {
		x := float64(seed) / 100
		for _, run := range []struct {
			v      lab.Variant
			value  float64
			second float64
		}{{lab.CNP, 80, 80}, {lab.FastCNP, 92 + x, 92 + x}, {lab.Oracle, 80 + 40*(x-0.025), 80 + 40*(x-0.025)},
			{lab.FCN, 70 + x, 70 + x}} {
			r.Runs = append(r.Runs, experiment.Run{Experiment: "X", Case: "a", Variant: run.v, Seed: uint64(seed + 1),
				Figures: experiment.Figures{figure: run.value, "last message ended": run.value,
					"messages unfinished": 1},
				Halves: map[string][2]float64{figure: {run.value, run.second}}})
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"right", "X: 92.0 instead of 80 %, 15.0 % more, not significant <!-- claim X | a | use of its link | " +
			"fastcnp 92.0 | cnp 80 | Δ fastcnp +15.0 % | Δ oracle n.s. | Δ oracle within 2 % -->", ""},
		{"right bounds", "X: 15.0 % (15.0 to 15.1), 92.03 (92.00 to 92.05) <!-- claim X | a | use of its link | " +
			"Δ fastcnp +15.0 % (15.0…15.1) | fastcnp 92.03 (92.00…92.05) | fastcnp 92.00…92.05 -->", ""},
		{"right ratio", "X: 1.15 (1.150 to 1.151), 15.0 % (15.0 to 15.1) <!-- claim X | a | use of its link | " +
			"fastcnp ÷ cnp 1.15 (1.150…1.151) | fastcnp ÷ cnp +15.0 % (15.0…15.1) -->", ""},
		{"another bound", "X: 92.03 (92.01 to 92.05) <!-- claim X | a | use of its link | " +
			"fastcnp 92.03 (92.01…92.05) -->", "results have 92"},
		{"one bound", "X: 92.03 <!-- claim X | a | use of its link | fastcnp 92.03 (92) -->", "want two"},
		{"another least figure", "X: 92.01 to 92.05 <!-- claim X | a | use of its link | fastcnp 92.01…92.05 -->",
			"results have 92"},
		{"another ratio", "X: 1.16 <!-- claim X | a | use of its link | fastcnp ÷ cnp 1.16 -->", "results have 1.15"},
		{"a ratio to a figure without halves", "X: 1.16 <!-- claim X | a | use of its link | " +
			"fastcnp ÷ none 1.16 -->", "not checked for steady state"},
		{"a ratio to a variant that did not run", "X: 1.16 † <!-- claim X | a | use of its link | " +
			"fastcnp ÷ none 1.16 -->", "no seed has both"},
		{"right number of seeds", "X: in 6 of 6 seeds <!-- claim X | a | use of its link | cnp in 6 of 6 seeds -->",
			""},
		{"another number of seeds", "X: in 5 of 6 seeds <!-- claim X | a | use of its link | cnp in 5 of 6 seeds -->",
			"in 6 of 6 seeds"},
		{"another number of seeds in the sentence", "X: in 5 of 6 seeds <!-- claim X | a | use of its link | " +
			"cnp in 6 of 6 seeds -->", "the sentence does not have this number of seeds"},
		{"number of seeds of a difference", "X: in 6 of 6 seeds <!-- claim X | a | use of its link | " +
			"Δ fastcnp in 6 of 6 seeds -->", "want that of a figure"},
		{"another size", "X: 93.0 <!-- claim X | a | use of its link | fastcnp 93.0 -->", "results have 92.025"},
		{"another sign", "X: −15.0 % <!-- claim X | a | use of its link | Δ fastcnp −15.0 % -->", "results have 15"},
		{"another number in the sentence", "X: 91 <!-- claim X | a | use of its link | fastcnp 92 -->",
			"the sentence does not have this number"},
		{"no experiment", "92 <!-- claim X | a | use of its link | fastcnp 92 -->", "the sentence does not name X"},
		{"no difference", "X: 0.0 % <!-- claim X | a | use of its link | Δ oracle 0.0 % -->", "not significant"},
		{"a difference", "X: not significant <!-- claim X | a | use of its link | Δ fastcnp n.s. -->",
			"significant: +15"},
		{"a large difference", "X: no difference <!-- claim X | a | use of its link | Δ fastcnp within 2 % -->",
			"not within: +15"},
		{"a part of a longer number", "X: 192.0 <!-- claim X | a | use of its link | fastcnp 92.0 -->",
			"the sentence does not have this number"},
		{"the beginning of a longer number", "X: 92.05 <!-- claim X | a | use of its link | fastcnp 92.0 -->",
			"the sentence does not have this number"},
		{"a number at the end", "X has 92.0. <!-- claim X | a | use of its link | fastcnp 92.0 -->", ""},
		{"a lower figure", "X: 12.5 % lower <!-- claim X | a | use of its link | Δ fcn −12.5 % -->", ""},
		{"a lower figure without a word", "X: 12.5 % <!-- claim X | a | use of its link | Δ fcn −12.5 % -->",
			"want a word such as \"lower\""},
		{"no significant difference without a word", "X <!-- claim X | a | use of its link | Δ oracle n.s. -->",
			"want \"significant\""},
		{"within without a word", "X <!-- claim X | a | use of its link | Δ oracle within 2 % -->",
			"want \"significant\""},
		{"an undecided ratio", "X: 1.00, not significant <!-- claim X | a | use of its link | oracle ÷ cnp 1.00 -->",
			""},
		{"an undecided ratio without a word", "X: 1.00 <!-- claim X | a | use of its link | oracle ÷ cnp 1.00 -->",
			"include no difference"},
		{"an undecided ratio in percent", "X: 0.0 % <!-- claim X | a | use of its link | oracle ÷ cnp 0.0 % -->",
			"include no difference"},
		{"a ratio with unfinished messages", "X: 1.15, of unfinished ones <!-- claim X | a | last message ended | " +
			"fastcnp ÷ cnp 1.15 -->", ""},
		{"a ratio with unfinished messages without a word", "X: 1.15 <!-- claim X | a | last message ended | " +
			"fastcnp ÷ cnp 1.15 -->", "messages are unfinished"},
		{"another case", "X: 92 <!-- claim X | b | use of its link | fastcnp 92 -->", `X has no case "b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			claims := readClaims(t, c.text)
			require.Len(t, claims, 1)
			err := claims[0].check(r)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
	unchecked := *r
	unchecked.Runs = nil
	for _, run := range r.Runs {
		run.Halves = nil
		unchecked.Runs = append(unchecked.Runs, run)
	}
	fresh := &experiment.Results{Cases: unchecked.Cases, Runs: unchecked.Runs}
	for _, check := range []struct{ name, text, want string }{
		{"figure", "92", "fastcnp 92"},
		{"number of seeds", "in 6 of 6 seeds", "fastcnp in 6 of 6 seeds"},
	} {
		t.Run("unchecked "+check.name, func(t *testing.T) {
			comment := " <!-- claim X | a | use of its link | " + check.want + " -->"
			claims := readClaims(t, "X: "+check.text+comment+"\n\nX: "+check.text+" †"+comment)
			require.ErrorContains(t, claims[0].check(fresh), "not checked for steady state")
			require.NoError(t, claims[1].check(fresh))
		})
	}
}

// The small size agrees with the full one, in the cases that are the same network at both: of the figures that are
// steady at the small size, at most 5 % differ from the full size by more than 2 %, with intervals that do not overlap;
// and no difference between variants has another sign where it is significant in both, unless nothing shows that the
// small figure is steady. A full figure is compared unless it is known not to be steady, also if its run recorded no
// halves.
func TestQuickAgainstFull(t *testing.T) {
	quick := results(t, "../../docs/results/quick.json", "quick")
	full := results(t, "../../docs/results/full.json", "full")
	steady, checked, apart, signs := 0, 0, 0, 0
	for i := range full.Cases {
		f := &full.Cases[i]
		for j := range quick.Cases {
			q := &quick.Cases[j]
			if q.Experiment != f.Experiment || q.Name != f.Name || network(t, q) != network(t, f) {
				continue
			}
			for figure := range figures(full, f) {
				for _, v := range f.Variants {
					state, fullState := quick.Steadiness(q, v, figure), full.Steadiness(f, v, figure)
					if state == experiment.InSteady && fullState.IsShown() {
						a, aFrom, aTo, _ := quick.Median(q, v, figure)
						b, bFrom, bTo, _ := full.Median(f, v, figure)
						steady++
						if fullState == experiment.InSteady {
							checked++
						}
						if math.Abs(a-b) > 0.02*math.Abs(b) && (aTo < bFrom || bTo < aFrom) {
							apart++
						}
					}
					a, okA := quick.Change(q, v, figure)
					b, okB := full.Change(f, v, figure)
					if okA && okB && state != experiment.Unchecked && a.Significant() && b.Significant() {
						signs++
						require.Equal(t, a.Median > 0, b.Median > 0, "%s, %s, %s, %v: %v at the small size, "+
							"%v at full size", q.Experiment, q.Name, figure, v, &a, &b)
					}
				}
			}
		}
	}
	require.Greater(t, steady, 80)
	require.LessOrEqual(t, float64(apart), 0.05*float64(steady))
	require.Greater(t, signs, 100)
	require.Zero(t, apart, "the page says so")
	page := unwrap(readPage(t))
	require.Contains(t, page, fmt.Sprintf("No two of %d figures are so far apart, %d of them checked at both sizes; "+
		"none of %d differences, also of figures with `start`, has another sign.", steady, checked, signs))
}

// The document counts, as "C4 2 of 26", the cases that have no results at full size.
func TestMissingAtFullSize(t *testing.T) {
	full := results(t, "../../docs/results/full.json", "full")
	var want []string
	for _, e := range experiment.All() {
		cases, missing := e.Cases(experiment.Full, 0), 0
		for i := range cases {
			hasName := func(c *experiment.CaseText) bool { return c.Name == cases[i].Name }
			if !slices.ContainsFunc(full.In(e.ID), hasName) {
				missing++
			}
		}
		if missing > 0 {
			want = append(want, fmt.Sprintf("%s %d of %d", e.ID, missing, len(cases)))
		}
	}
	_, text, found := strings.Cut(readPage(t), "**Cases without results at full size**")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n\n")
	counts := regexp.MustCompile(`(?:C\d+[a-z]?|B3) \d+ of \d+`).FindAllString(unwrap(text), -1)
	require.ElementsMatch(t, want, counts)
}

// readPage returns the document.
func readPage(t *testing.T) string {
	t.Helper()
	return string(wiretest.Must(os.ReadFile("../../docs/results.md"))(t))
}

// unwrap returns a text with single spaces instead of its line ends.
func unwrap(text string) string { return strings.Join(strings.Fields(text), " ") }

// network returns the scenario of a case without the keys that sizes may change.
func network(t *testing.T, c *experiment.CaseText) string {
	t.Helper()
	var s map[string]any
	require.NoError(t, json.Unmarshal(c.Scenario, &s))
	for _, key := range []string{"duration", "warmup", "seeds", "name"} {
		delete(s, key)
	}
	return string(wiretest.Must(json.Marshal(s))(t))
}

// figures returns the names of the figures of a case.
func figures(r *experiment.Results, c *experiment.CaseText) map[string]bool {
	names := map[string]bool{}
	for i := range r.Runs {
		if r.Runs[i].Experiment == c.Experiment && r.Runs[i].Case == c.Name {
			for name := range r.Runs[i].Figures {
				names[name] = true
			}
		}
	}
	return names
}
