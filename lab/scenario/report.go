package scenario

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
)

// A Metric is a row of the report, with a function that returns its value in one run; NaN if there is none.
type Metric struct {
	Name, Unit string
	Of         func(r *Result) float64
}

// Metrics are the rows in order.
func Metrics() []Metric {
	µs := func(t sim.Time) float64 {
		if t == sim.Never {
			return math.NaN()
		}
		return float64(t) / float64(sim.Microsecond)
	}
	all := []Metric{
		{"peak of the deepest queue", "KB", func(r *Result) float64 { return float64(r.Peak) / 1000 }},
		{"its mean", "KB", func(r *Result) float64 { return r.Queue.Mean() / 1000 }},
		{"99 % of the time below", "KB", func(r *Result) float64 { return float64(r.Queue.Quantile(0.99)) / 1000 }},
		{"use of its link", "%", func(r *Result) float64 { return r.Use * 100 }},
		{"use of the busiest link", "%", func(r *Result) float64 { return r.Busiest * 100 }},
		{"goodput, all flows", "Gbit/s", func(r *Result) float64 { return r.Goodput }},
		{"Jain's index", "", func(r *Result) float64 { return zeroToNaN(r.Jain) }},
		{"onset to first cut", "µs", func(r *Result) float64 { return µs(r.FirstCut) }},
		{"onset to a flow's first cut, median", "µs", func(r *Result) float64 { return µs(medianTime(r.Cuts)) }},
		{"congested packets", "", func(r *Result) float64 { return float64(r.Counts.Congested) }},
		{"packets marked", "", func(r *Result) float64 { return float64(r.Counts.Marked) }},
		{"CNPs", "", func(r *Result) float64 { return float64(r.Counts.CNPs) }},
		{"Fast CNPs", "", func(r *Result) float64 { return float64(r.Counts.FastCNPs) }},
		{"those not understood", "", func(r *Result) float64 { return float64(r.Counts.Ignored) }},
		{"those rejected", "", func(r *Result) float64 { return float64(r.Counts.Rejected) }},
		{"messages to proxies", "", func(r *Result) float64 { return float64(r.Counts.Proxied) }},
		{"FCNs", "", func(r *Result) float64 { return float64(r.Counts.FCNs) }},
		{"messages about unknown queue pairs", "", func(r *Result) float64 { return float64(r.Counts.Unlearned) }},
		{"packets without a label", "", func(r *Result) float64 { return float64(r.Counts.Unlabeled) }},
		{"PPFCs that ask to wait", "", func(r *Result) float64 { return float64(r.Counts.PPFCs) }},
		{"PPFCs that let go on", "", func(r *Result) float64 { return float64(r.Counts.Released) }},
		{"PPFCs obeyed", "", func(r *Result) float64 { return float64(r.Counts.Braked) }},
		{"stored by a PE, at most", "KB", func(r *Result) float64 { return float64(r.Stored) / 1000 }},
		{"notifications to reaction points", "", func(r *Result) float64 { return float64(r.Counts.Notified) }},
		{"those that reached a wrong flow", "", func(r *Result) float64 { return float64(r.Counts.Astray) }},
		{"octets of notifications", "KB", func(r *Result) float64 { return float64(r.Counts.Notice) / 1000 }},
		{"pauses", "", func(r *Result) float64 { return float64(r.Counts.Pauses) }},
		{"paused, all ports", "µs", func(r *Result) float64 { return µs(r.Paused) }},
		{"queues emptied by the watchdog", "", func(r *Result) float64 { return float64(r.Counts.Storms) }},
		{"packets lost", "", func(r *Result) float64 { return float64(r.Counts.Lost) }},
		{"messages finished", "", func(r *Result) float64 { return float64(r.Finished) }},
		{"messages unfinished", "", func(r *Result) float64 { return float64(r.Unfinished) }},
		{"last message ended", "µs", func(r *Result) float64 { return zeroToNaN(µs(r.Last)) }},
	}
	for i := range maxTraffics {
		all = append(all, Metric{fmt.Sprintf("goodput, traffic[%d]", i), "Gbit/s", func(r *Result) float64 {
			if len(r.Goodputs) < 2 || i >= len(r.Goodputs) {
				return math.NaN()
			}
			return r.Goodputs[i]
		}})
	}
	all = append(all, Metric{"congested packets, at a last hop", "%", func(r *Result) float64 {
		return float64(r.AtHosts) / float64(r.Counts.Congested) * 100 // NaN if there was none
	}}, Metric{"at a leaf's uplink", "%", func(r *Result) float64 {
		if r.Uplinks == nil {
			return math.NaN()
		}
		sum := uint64(0)
		for _, met := range r.Uplinks {
			sum += met
		}
		return float64(sum) / float64(r.Counts.Congested) * 100
	}}, Metric{"at the uplink with the most", "%", func(r *Result) float64 {
		if r.Uplinks == nil {
			return math.NaN()
		}
		return float64(slices.Max(r.Uplinks)) / float64(r.Counts.Congested) * 100
	}})
	all = append(all, Metric{"completion of a message, mean", "µs", func(r *Result) float64 {
		whole, n := 0., 0.
		for i := range r.Completion {
			whole += r.Completion[i].Mean() * float64(r.Completion[i].Count())
			n += float64(r.Completion[i].Count())
		}
		return whole / n / 1000 // NaN if there was none
	}}, Metric{"unfinished, of all sizes", "%", func(r *Result) float64 {
		open, n := 0., 0.
		for i := range r.Open {
			open += float64(r.Open[i])
			n += float64(r.Completion[i].Count())
		}
		return open / (open + n) * 100
	}})
	low := int64(0)
	for i, high := range Bins {
		sizes := fmt.Sprintf("%d to %d KB", low/1000, high/1000)
		if high == math.MaxInt64 {
			sizes = fmt.Sprintf("over %d KB", low/1000)
		}
		low = high
		for _, q := range []float64{0.5, 0.99} {
			all = append(all, Metric{fmt.Sprintf("completion, %s, %.0f %%", sizes, q*100), "µs",
				func(r *Result) float64 { return r.Quantile(r.Completion, i, q) / 1000 }})
		}
		for _, q := range []float64{0.5, 0.99} {
			all = append(all, Metric{fmt.Sprintf("slowdown, %s, %.0f %%", sizes, q*100), "",
				func(r *Result) float64 { return r.Quantile(r.Slowdown, i, q) / 100 }})
		}
		all = append(all, Metric{"unfinished, " + sizes, "%", func(r *Result) float64 { return r.openAt(i) * 100 }})
	}
	return all
}

// Quantile returns a quantile of Completion or Slowdown in a bin, of all messages that were posted after the warmup.
// Those that have not ended count as the slowest: it is +Inf if it is one of them, and NaN if there is no message.
func (r *Result) Quantile(of []lab.Histogram, bin int, q float64) float64 {
	ended, open := float64(of[bin].Count()), float64(r.Open[bin])
	switch {
	case ended+open == 0:
		return math.NaN()
	case q*(ended+open) > ended:
		return math.Inf(1)
	}
	return float64(of[bin].Quantile(q + q*open/ended))
}

// openAt returns which share of the messages of a bin that were posted after the warmup has not ended; NaN if there are
// none.
func (r *Result) openAt(bin int) float64 {
	open := float64(r.Open[bin])
	return open / (open + float64(r.Completion[bin].Count()))
}

func zeroToNaN(x float64) float64 {
	if x == 0 {
		return math.NaN()
	}
	return x
}

func medianTime(times []sim.Time) sim.Time {
	if len(times) == 0 {
		return sim.Never
	}
	times = slices.Clone(times)
	slices.Sort(times)
	low, high := times[(len(times)-1)/2], times[len(times)/2]
	return low + (high-low)/2
}

// Print writes the scenario and its results: for each variant the median over its seeds, and in brackets the
// bounds that [lab.Median] returns. Rows without a figure other than 0 are left out.
func (s *Scenario) Print(w io.Writer, results []Result) error {
	out := &strings.Builder{}
	if s.Name != "" {
		fmt.Fprintf(out, "%s\n\n", s.Name)
	}
	for _, v := range s.Variants {
		fmt.Fprintln(out, Wrapped(s.ofVariant(v)))
	}
	fmt.Fprintf(out, "%s\n\n", Wrapped(s.common()))
	for _, r := range results {
		if r.Ended < s.Duration.sim() {
			fmt.Fprintf(out, "interrupted: %v, seed %d, ended after %v of %v\n", r.Variant, r.Seed, r.Ended,
				s.Duration.sim())
		}
	}
	if missing := len(s.Variants)*len(s.Seeds) - len(results); missing > 0 {
		fmt.Fprintf(out, "interrupted: %d runs did not begin\n", missing)
	}

	table := [][]string{{"", ""}}
	for _, v := range s.Variants {
		table[0] = append(table[0], v.String())
	}
	for _, m := range Metrics() {
		row := []string{m.Name, m.Unit}
		some := false
		for _, v := range s.Variants {
			cell, is := m.formatCell(results, v)
			row, some = append(row, cell), some || is
		}
		if some {
			table = append(table, row)
		}
	}
	Columns(out, table)
	out.WriteString("\n")
	for _, r := range results {
		fmt.Fprintf(out, "%v, seed %d: deepest queue from %s; %d events, fingerprint %016x\n",
			r.Variant, r.Seed, r.Port, r.Events, r.Print)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Columns writes the rows of a table with aligned columns. The first row has
// the names of the columns; the cells of the first two columns are texts.
func Columns(out *strings.Builder, table [][]string) {
	wide := make([]int, len(table[0]))
	for _, row := range table {
		for i, cell := range row {
			wide[i] = max(wide[i], len([]rune(cell)))
		}
	}
	for _, row := range table {
		line := fmt.Sprintf("%-*s  %-*s", wide[0], row[0], wide[1], row[1])
		for i, cell := range row[2:] {
			line += fmt.Sprintf("  %*s", wide[i+2], cell)
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

// Wrapped breaks lines of over 110 columns after a comma or a semicolon.
func Wrapped(text string) string {
	const most = 110
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for len([]rune(line)) > most {
			head := string([]rune(line)[:most])
			at := strings.LastIndexAny(head, ",;") + 1
			if at < 20 {
				break
			}
			out = append(out, line[:at])
			line = "  " + strings.TrimLeft(line[at:], " ")
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// formatCell returns a metric of a variant, with its bounds and the number of seeds if some lack it, and reports
// whether it is not 0. If it is infinite in a seed, as a [Result.Quantile] may be, the others alone would look better
// than all.
func (m *Metric) formatCell(results []Result, v lab.Variant) (text string, some bool) {
	var values []float64
	runs := 0
	for i := range results {
		if r := &results[i]; r.Variant == v {
			runs++
			x := m.Of(r)
			if math.IsInf(x, 1) {
				return "–", false
			}
			if !math.IsNaN(x) {
				values = append(values, x)
				some = some || x != 0
			}
		}
	}
	if len(values) == 0 {
		return "–", false
	}
	middle, from, to := lab.Median(values)
	var notes []string
	if len(values) > 1 {
		notes = append(notes, Figure(from)+"…"+Figure(to))
	}
	if len(values) < runs {
		notes = append(notes, fmt.Sprintf("%d of %d seeds", len(values), runs))
	}
	text = Figure(middle)
	if notes != nil {
		text += " (" + strings.Join(notes, ", ") + ")"
	}
	return text, some
}

// Figure prints integers completely, other numbers with four digits.
func Figure(x float64) string {
	switch {
	case x == math.Trunc(x) && math.Abs(x) < 1e15:
		return fmt.Sprintf("%.0f", x)
	case math.Abs(x) >= 1000:
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.4g", x)
}
