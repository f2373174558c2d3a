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

	// Steady returns the value in one window of the time after the warmup. It is nil for metrics of the whole run,
	// which include the start, and for those of messages.
	Steady func(s *Steady) float64
}

// steadyMetric returns a Metric of the time after the warmup.
func steadyMetric(name, unit string, of func(s *Steady) float64) Metric {
	return Metric{name, unit, func(r *Result) float64 { return of(&r.Steady) }, of}
}

// Metrics are the rows in order.
func Metrics() []Metric {
	µs := func(t sim.Time) float64 {
		if t == sim.Never {
			return math.NaN()
		}
		return float64(t) / float64(sim.Microsecond)
	}
	row := func(name, unit string, of func(r *Result) float64) Metric { return Metric{name, unit, of, nil} }
	all := []Metric{
		row("peak of the deepest queue", "KB", func(r *Result) float64 { return float64(r.Peak) / 1000 }),
		steadyMetric("peak after the warmup", "KB", func(s *Steady) float64 { return float64(s.Queue.Max()) / 1000 }),
		steadyMetric("its mean", "KB", func(s *Steady) float64 { return s.Queue.Mean() / 1000 }),
		steadyMetric("99 % of the time below", "KB",
			func(s *Steady) float64 { return float64(s.Queue.Quantile(0.99)) / 1000 }),
		steadyMetric("use of its link", "%", func(s *Steady) float64 { return s.Use * 100 }),
		steadyMetric("use of the busiest link", "%", func(s *Steady) float64 { return s.Busiest * 100 }),
		steadyMetric("goodput, all flows", "Gbit/s", func(s *Steady) float64 { return s.Goodput }),
		steadyMetric("Jain's index", "", func(s *Steady) float64 { return zeroToNaN(s.Jain) }),
		row("onset to first cut", "µs", func(r *Result) float64 { return µs(r.FirstCut) }),
		row("onset to a flow's first cut, median", "µs", func(r *Result) float64 { return µs(medianTime(r.Cuts)) }),
		row("congested packets", "", func(r *Result) float64 { return float64(r.Counts.Congested) }),
		row("packets marked", "", func(r *Result) float64 { return float64(r.Counts.Marked) }),
		row("CNPs", "", func(r *Result) float64 { return float64(r.Counts.CNPs) }),
		row("Fast CNPs", "", func(r *Result) float64 { return float64(r.Counts.FastCNPs) }),
		row("those not understood", "", func(r *Result) float64 { return float64(r.Counts.Ignored) }),
		row("those rejected", "", func(r *Result) float64 { return float64(r.Counts.Rejected) }),
		row("messages to proxies", "", func(r *Result) float64 { return float64(r.Counts.Proxied) }),
		row("FCNs", "", func(r *Result) float64 { return float64(r.Counts.FCNs) }),
		row("messages about unknown queue pairs", "", func(r *Result) float64 { return float64(r.Counts.Unlearned) }),
		row("packets without a label", "", func(r *Result) float64 { return float64(r.Counts.Unlabeled) }),
		row("PPFCs that ask to wait", "", func(r *Result) float64 { return float64(r.Counts.PPFCs) }),
		row("PPFCs that let go on", "", func(r *Result) float64 { return float64(r.Counts.Released) }),
		row("PPFCs obeyed", "", func(r *Result) float64 { return float64(r.Counts.Braked) }),
		row("stored by a PE, at most", "KB", func(r *Result) float64 { return float64(r.Stored) / 1000 }),
		row("notifications to reaction points", "", func(r *Result) float64 { return float64(r.Counts.Notified) }),
		row("those that reached a wrong flow", "", func(r *Result) float64 { return float64(r.Counts.Astray) }),
		row("octets of notifications", "KB", func(r *Result) float64 { return float64(r.Counts.Notice) / 1000 }),
		row("pauses", "", func(r *Result) float64 { return float64(r.Counts.Pauses) }),
		row("paused, all ports", "µs", func(r *Result) float64 { return µs(r.Paused) }),
		row("queues emptied by the watchdog", "", func(r *Result) float64 { return float64(r.Counts.Storms) }),
		row("packets lost", "", func(r *Result) float64 { return float64(r.Counts.Lost) }),
		row("packets trimmed", "", func(r *Result) float64 { return float64(r.Counts.Trimmed) }),
		row("packets out of order", "", func(r *Result) float64 { return float64(r.Counts.Reordered) }),
		row("messages finished", "", func(r *Result) float64 { return float64(r.Finished) }),
		row("messages unfinished", "", func(r *Result) float64 { return float64(r.Unfinished) }),
		row("last message ended", "µs", func(r *Result) float64 { return zeroToNaN(µs(r.Last)) }),
	}
	for i := range maxTraffics {
		all = append(all, steadyMetric(fmt.Sprintf("goodput, traffic[%d]", i), "Gbit/s", func(s *Steady) float64 {
			if len(s.Goodputs) < 2 || i >= len(s.Goodputs) {
				return math.NaN()
			}
			return s.Goodputs[i]
		}))
	}
	all = append(all, row("congested packets, at a last hop", "%", func(r *Result) float64 {
		return float64(r.AtHosts) / float64(r.Counts.Congested) * 100 // NaN if there was none
	}), row("at a leaf's uplink", "%", func(r *Result) float64 {
		if r.Uplinks == nil {
			return math.NaN()
		}
		sum := uint64(0)
		for _, met := range r.Uplinks {
			sum += met
		}
		return float64(sum) / float64(r.Counts.Congested) * 100
	}), row("at the uplink with the most", "%", func(r *Result) float64 {
		if r.Uplinks == nil {
			return math.NaN()
		}
		return float64(slices.Max(r.Uplinks)) / float64(r.Counts.Congested) * 100
	}))
	all = append(all, row("completion of a message, mean", "µs", func(r *Result) float64 {
		whole, n := 0., 0.
		for i := range r.Completion {
			whole += r.Completion[i].Mean() * float64(r.Completion[i].Count())
			n += float64(r.Completion[i].Count())
		}
		return whole / n / 1000 // NaN if there was none
	}), row("unfinished, of all sizes", "%", func(r *Result) float64 {
		open, n := 0., 0.
		for i := range r.Open {
			open += float64(r.Open[i])
			n += float64(r.Completion[i].Count())
		}
		return open / (open + n) * 100
	}))
	low := int64(0)
	for i, high := range Bins {
		sizes := fmt.Sprintf("%d to %d KB", low/1000, high/1000)
		if high == math.MaxInt64 {
			sizes = fmt.Sprintf("over %d KB", low/1000)
		}
		low = high
		for _, q := range []float64{0.5, 0.99} {
			all = append(all, row(fmt.Sprintf("completion, %s, %.0f %%", sizes, q*100), "µs",
				func(r *Result) float64 { return r.Quantile(r.Completion, i, q) / 1000 }))
		}
		for _, q := range []float64{0.5, 0.99} {
			all = append(all, row(fmt.Sprintf("slowdown, %s, %.0f %%", sizes, q*100), "",
				func(r *Result) float64 { return r.Quantile(r.Slowdown, i, q) / 100 }))
		}
		all = append(all, row("unfinished, "+sizes, "%", func(r *Result) float64 { return r.openAt(i) * 100 }))
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
