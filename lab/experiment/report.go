package experiment

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/check"
	"github.com/rocecn/rocecn/lab/scenario"
)

// Rows returns the expected results of the experiments with the measured ones.
func (r *Results) Rows() (rows []check.Row) {
	for _, e := range All() {
		if e.rows != nil && len(r.In(e.ID)) > 0 {
			more := e.rows(r)
			for i := range more {
				more[i].Check = e.ID
			}
			rows = append(rows, more...)
		}
	}
	return rows
}

// Print writes the figures of each case, with their conditions, and the rows.
func (r *Results) Print(w io.Writer) error {
	out := &strings.Builder{}
	for _, e := range All() {
		before := ""
		for i, c := range r.In(e.ID) {
			if i == 0 {
				fmt.Fprintf(out, "%s: %s\n%s\n\n", e.ID, e.Title, scenario.Wrapped(e.Asks))
			}
			if lines := c.formatConditions(); lines != before {
				fmt.Fprintf(out, "%s\n\n", lines)
				before = lines
			}
			r.writeTable(out, &e, c)
		}
	}
	if rows := r.Rows(); len(rows) > 0 {
		if err := check.Print(out, rows); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// formatConditions returns the lines of all variants, with their common part once.
func (c *CaseText) formatConditions() string {
	var lines []string
	for _, v := range c.Variants {
		lines = append(lines, c.Lines[v.String()])
	}
	if len(lines) == 0 {
		return ""
	}
	end := lines[0] // common end of all lines
	for _, line := range lines[1:] {
		for !strings.HasSuffix(line, end) {
			_, end, _ = strings.Cut(end, "; ")
		}
	}
	out := ""
	for _, line := range lines {
		out += scenario.Wrapped(strings.TrimSuffix(strings.TrimSuffix(line, end), "; ")) + "\n"
	}
	return out + scenario.Wrapped(end)
}

// Cell returns a figure as tables show it, with its bounds and counts, and reports whether it is not 0.
func (r *Results) Cell(c *CaseText, v lab.Variant, figure string) (text string, some bool) {
	m, from, to, ok := r.Median(c, v, figure)
	text = "–"
	steady := r.Steadiness(c, v, figure)
	if ok && steady == NotSteady {
		return "not steady", true
	}
	if ok {
		text = scenario.Figure(m)
	}
	if unfinished := r.formatUnfinished(c, v, figure, from, to); unfinished != "" {
		text += " (" + unfinished + ")"
	}
	if ok {
		text += steady.mark()
	}
	return text, m != 0 || to != 0
}

// UnitText returns the unit of a figure, with "start" if the figure includes the start of a run in a case.
func (r *Results) UnitText(c *CaseText, figure string) string {
	unit := Unit(figure)
	if isSteadyFigure(figure) && c.isWarmed() {
		return unit
	}
	return strings.TrimPrefix(unit+", start", ", ")
}

// formatUnfinished returns the bounds of the median of a figure if they differ, the number of seeds if some lack the
// figure, and the number of unfinished messages that it leaves out.
func (r *Results) formatUnfinished(c *CaseText, v lab.Variant, figure string, from, to float64) string {
	var parts []string
	if from != to {
		parts = append(parts, scenario.Figure(from)+"…"+scenario.Figure(to))
	}
	if n, all := len(r.Values(c, v, figure)), len(r.selectRuns(c, v)); 0 < n && n < all {
		parts = append(parts, fmt.Sprintf("%d of %d seeds", n, all))
	}
	switch least, most := r.countUnfinished(c, v, figure); {
	case least < most:
		parts = append(parts, "up to "+scenario.Figure(most)+" unfinished")
	case most > 0:
		parts = append(parts, scenario.Figure(most)+" unfinished")
	}
	return strings.Join(parts, ", ")
}

// countUnfinished returns the least and the largest number of unfinished messages that a figure leaves out in a seed.
func (r *Results) countUnfinished(c *CaseText, v lab.Variant, figure string) (least, most float64) {
	if figure != meanTime && figure != lastTime && figure != ended {
		return 0, 0
	}
	values := r.Values(c, v, remaining)
	if len(values) == 0 {
		return 0, 0
	}
	return slices.Min(values), slices.Max(values)
}

// writeTable writes the table of a case.
func (r *Results) writeTable(out *strings.Builder, e *Experiment, c *CaseText) {
	table := [][]string{{c.Name, ""}}
	for _, v := range c.Variants {
		table[0] = append(table[0], v.String())
	}
	for _, shown := range e.shown {
		row, some := []string{shown.Figure, r.UnitText(c, shown.Figure)}, false
		for _, v := range c.Variants {
			cell, is := r.Cell(c, v, shown.Figure)
			row, some = append(row, cell), some || is
		}
		if some {
			table = append(table, row)
		}
	}
	scenario.Columns(out, table)
	fmt.Fprintln(out)
	r.writeChanges(out, e, c)
}

// writeChanges writes the differences from the baselines of a case, seed by seed.
func (r *Results) writeChanges(out *strings.Builder, e *Experiment, c *CaseText) {
	table := [][]string{{"by seed, median", ""}}
	var variants []lab.Variant
	for _, v := range c.Variants {
		if than, ok := c.findBaseline(v); ok {
			variants = append(variants, v)
			table[0] = append(table[0], fmt.Sprintf("%v to %v", v, than))
		}
	}
	for _, shown := range e.shown {
		row, some := []string{shown.Figure, Unit(shown.Figure)}, false
		for _, v := range variants {
			change, ok := r.Change(c, v, shown.Figure)
			some = some || ok && (change.Median != 0 || change.From != change.To)
			if !ok {
				row = append(row, "–")
				continue
			}
			row = append(row, fmt.Sprintf("%v, p %.2g", &change, change.AdjustedP))
		}
		if some {
			table = append(table, row)
		}
	}
	if len(table) > 1 {
		scenario.Columns(out, table)
		fmt.Fprintf(out, "p: paired t-test, Holm's correction over the figure's differences in all cases of %s; "+
			"n.s.: 0.05 or more\n\n", e.ID)
	}
}
