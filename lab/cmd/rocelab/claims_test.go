package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
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
// that it is not, and "within 2 %" that its bounds are. "in 3 of 6 seeds" is the number of seeds with a figure above 0,
// also if their median is not steady; it has no Δ. "claim full" is about full.json. A figure of a run without halves
// has † in the sentence.
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
		parts := strings.Split(strings.Join(strings.Fields(text[at[2]:at[3]]), " "), " | ")
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
	rest := strings.Join(words[1:], " ")
	counts := strings.HasSuffix(rest, " seeds")
	switch steady := r.Steadiness(text, v, c.figure); {
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
	if !changes {
		m, _, _, ok := r.Median(text, v, c.figure)
		return c.compare(m, ok, rest)
	}
	change, ok := r.Change(text, v, c.figure)
	switch {
	case rest == "n.s.":
		if !ok || change.Significant() {
			return fmt.Errorf("significant: %v", &change)
		}
		return nil
	case rest == "within 2 %":
		if !ok || !change.Percent || change.From < -2 || change.To > 2 {
			return fmt.Errorf("not within: %v", &change)
		}
		return nil
	case !change.Significant():
		return fmt.Errorf("not significant: %v", &change)
	case change.Percent != strings.HasSuffix(rest, " %"):
		return fmt.Errorf("want the same unit: %v", &change)
	}
	return c.compare(change.Median, ok, strings.TrimSuffix(rest, " %"))
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
	if !strings.Contains(strings.Join(strings.Fields(c.text), " "), seeds) {
		return fmt.Errorf("the sentence does not have this number of seeds: %s", c.text)
	}
	return nil
}

// compare returns an error if a figure does not round to a number of the sentence.
func (c *claim) compare(x float64, ok bool, number string) error {
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
	case !ok || x < want-half || x > want+half:
		return fmt.Errorf("results have %v", x)
	case !strings.Contains(c.text, strings.TrimLeft(number, "+−")): // a sentence may say "lower"
		return fmt.Errorf("the sentence does not have this number: %s", c.text)
	}
	return nil
}

// Every sentence of the summary, and every row of the cases without a gain, has a claim, and the results have the signs
// and the sizes of all claims.
func TestClaims(t *testing.T) {
	text := string(wiretest.Must(os.ReadFile("../../docs/results.md"))(t))
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
		require.Regexp(t, claimComment, item, "a sentence without a claim")
	}
}

// A claim fails on each way in which results can contradict it.
func TestWrongClaims(t *testing.T) {
	r := &experiment.Results{Cases: []experiment.CaseText{{
		Experiment: "X", Name: "a", Scenario: []byte(`{"warmup":"1ms"}`),
		Variants: []lab.Variant{lab.CNP, lab.FastCNP, lab.Oracle},
	}}}
	const figure = "use of its link"
	for seed := range 6 {
		x := float64(seed) / 100
		for _, run := range []struct {
			v      lab.Variant
			value  float64
			second float64
		}{{lab.CNP, 80, 80}, {lab.FastCNP, 92 + x, 92 + x}, {lab.Oracle, 80 + 40*(x-0.025), 80 + 40*(x-0.025)}} {
			r.Runs = append(r.Runs, experiment.Run{Experiment: "X", Case: "a", Variant: run.v, Seed: uint64(seed + 1),
				Figures: experiment.Figures{figure: run.value},
				Halves:  map[string][2]float64{figure: {run.value, run.second}}})
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"right", "X: 92.0 instead of 80 %, 15.0 % more <!-- claim X | a | use of its link | fastcnp 92.0 | cnp 80 | " +
			"Δ fastcnp +15.0 % | Δ oracle n.s. | Δ oracle within 2 % -->", ""},
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
		{"a difference", "X <!-- claim X | a | use of its link | Δ fastcnp n.s. -->", "significant: +15"},
		{"a large difference", "X <!-- claim X | a | use of its link | Δ fastcnp within 2 % -->", "not within: +15"},
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
// small figure is steady. No full run recorded halves: a full figure is compared unless it is known not to be steady.
func TestQuickAgainstFull(t *testing.T) {
	quick := results(t, "../../docs/results/quick.json", "quick")
	full := results(t, "../../docs/results/full.json", "full")
	steady, apart, signs := 0, 0, 0
	for i := range full.Cases {
		f := &full.Cases[i]
		for j := range quick.Cases {
			q := &quick.Cases[j]
			if q.Experiment != f.Experiment || q.Name != f.Name || network(t, q) != network(t, f) {
				continue
			}
			for figure := range figures(full, f) {
				for _, v := range f.Variants {
					state := quick.Steadiness(q, v, figure)
					if state == experiment.InSteady && full.Steadiness(f, v, figure).IsShown() {
						a, aFrom, aTo, _ := quick.Median(q, v, figure)
						b, bFrom, bTo, _ := full.Median(f, v, figure)
						steady++
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
}

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
