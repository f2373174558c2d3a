package experiment

import (
	_ "embed"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/internal/webpage"
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/check"
	"github.com/rocecn/rocecn/lab/scenario"
)

//go:embed page.tmpl
var pageText string

var pageTemplate = webpage.New(pageText)

// A page is the data of the template.
type page struct {
	Commit, Size   string
	Runs, Missing  int
	Seeds          string
	Maps           []heatMap
	MapLine        string
	MapCSV         template.URL
	Frontiers      []frontier
	FrontierCSV    template.URL
	FrontierLine   string
	Moments        []moment
	Experiments    []pageExperiment
	Rows           []pageRow
	Wrong          int
	RowsCSV        template.URL
	Nothing, Worse []verdict
	NothingCSV     template.URL
}

// A heatMap is a table with colours: of C1, by hop and distance.
type heatMap struct {
	Title, Unit string
	Ways        []string
	Rows        []heatRow
}

type heatRow struct {
	Hop   string
	Cells []heatCell
}

// A heatCell is coloured by its gain or loss.
type heatCell struct {
	Text, Title string
	Class       string // better, worse or same
	Strength    int    // 0 to 100
}

type frontier struct {
	Network string
	Curves  []curve
	XTicks  []tick
	YTicks  []tick
}

type curve struct {
	Class  string
	Path   string
	Points []dot
}

// to goes on to a place, or begins there.
func (c *curve) to(x, y string) {
	step := "L"
	if c.Path == "" {
		step = "M"
	}
	c.Path += step + x + " " + y
}

type dot struct {
	X, Y  string
	Title string
}

type tick struct{ At, Text string }

type moment struct {
	Number     int
	Name, Port string
	Lines      []string
	Length     string
	Curves     []curve
	Rates      []curve
	RateTop    string
	CSV        template.URL
	YTicks     []tick
	Data       momentData
}

// momentData is the data of the script of the page.
type momentData struct {
	Every    float64     `json:"every"`
	Variants []string    `json:"variants"`
	Queue    [][]float64 `json:"queue"`
	Rate     [][]float64 `json:"rate"`
	Use      [][]float64 `json:"use"`
}

type pageExperiment struct {
	ID, Title, Asks string
	Tables          []pageTable
	Conditions      []condition
	CSV             template.URL
}

type pageTable struct {
	Figure, Unit string
	Variants     []string
	Rows         []pageTableRow
}

type pageTableRow struct {
	Case  string
	Cells []pageCell
}

type pageCell struct{ Median, Bounds, Class string }

type condition struct {
	Cases string
	Lines string
}

type pageRow struct {
	check.Row
	Right bool
}

// Bounds returns the bounds in words.
func (r *pageRow) Bounds() string {
	return scenario.Figure(r.Low) + " … " + scenario.Figure(r.High)
}

// Figures returns the expected and the measured figure as text.
func (r *pageRow) Figures() [2]string {
	return [2]string{scenario.Figure(r.Expected), scenario.Figure(r.Measured)}
}

// A verdict is the change of a figure in a case by Fast CNPs, compared with CNPs: in percent, seed by seed.
type verdict struct {
	Experiment, Case, Figure string
	change, from, to         float64
	gain                     float64 // the change, positive for an improvement
	seeds                    int     // that have the figure
	all                      int
	of                       *CaseText
}

// Change returns the change in words.
func (v verdict) Change() string {
	text := fmt.Sprintf("%+.1f %%", v.change)
	if v.from != v.to {
		text += fmt.Sprintf(" (%+.1f … %+.1f)", v.from, v.to)
	}
	if v.seeds < v.all {
		text += fmt.Sprintf(", %d of %d seeds", v.seeds, v.all)
	}
	return text
}

// Page writes the results as one page without anything else.
func (r *Results) Page(w io.Writer) error { return pageTemplate.Execute(w, r.buildPage()) }

func (r *Results) buildPage() *page {
	p := &page{Commit: r.Commit, Size: r.Size, Runs: len(r.Runs), Missing: r.Missing()}
	var seeds []string
	for _, c := range r.Cases {
		if text := fmt.Sprint(len(c.Seeds)); !slices.Contains(seeds, text) {
			seeds = append(seeds, text)
		}
	}
	p.Seeds = strings.Join(seeds, " or ")
	p.Maps, p.MapCSV = r.maps()
	if cases := r.In(positions.ID); len(cases) > 0 {
		p.MapLine = cases[0].formatConditions()
	}
	for _, network := range networks {
		if f, ok := r.frontier(network); ok {
			p.Frontiers = append(p.Frontiers, f)
		}
	}
	if cases := r.In(frontiers.ID); len(cases) > 0 {
		p.FrontierLine, p.FrontierCSV = cases[0].formatConditions(), r.table2csv(&frontiers)
	}
	p.Moments = r.allMoments()
	for _, e := range All() {
		if len(r.In(e.ID)) > 0 {
			p.Experiments = append(p.Experiments, r.pageExperiment(&e))
		}
	}
	table := [][]string{{"check", "what", "unit", "expected", "measured", "from", "to", "seeds", "right", "commit"}}
	for _, row := range append(slices.Clone(r.Checks), r.Rows()...) {
		p.Rows = append(p.Rows, pageRow{row, row.OK()})
		if !row.OK() {
			p.Wrong++
		}
		table = append(table, []string{
			row.Check, row.What, row.Unit, fmt.Sprint(row.Expected), fmt.Sprint(row.Measured), fmt.Sprint(row.Low),
			fmt.Sprint(row.High), fmt.Sprint(max(row.Seeds, 1)), fmt.Sprint(row.OK()),
			r.Commit,
		})
	}
	p.RowsCSV = asCSV(table)
	p.Nothing, p.Worse = r.allVerdicts()
	table = [][]string{{
		"verdict", "experiment", "case", "figure", "change, %", "from", "to", "seeds", "commit", "line",
	}}
	for _, kind := range []struct {
		name     string
		verdicts []verdict
	}{{"worse", p.Worse}, {"no figure is better", p.Nothing}} {
		for _, v := range kind.verdicts {
			table = append(table, []string{
				kind.name, v.Experiment, v.Case, v.Figure, fmt.Sprint(v.change), fmt.Sprint(v.from), fmt.Sprint(v.to),
				fmt.Sprint(v.seeds), r.commitOf(v.of), v.of.formatConditions(),
			})
		}
	}
	p.NothingCSV = asCSV(table)
	return p
}

// asCSV returns the address of a table as a file.
func asCSV(table [][]string) template.URL {
	var out strings.Builder
	_ = csv.NewWriter(&out).WriteAll(table) // a Builder has no errors
	return template.URL("data:text/csv;base64," + base64.StdEncoding.EncodeToString([]byte(out.String())))
}

// table2csv returns all figures of an experiment as a file: a line for each case, variant and figure.
func (r *Results) table2csv(e *Experiment) template.URL {
	table := [][]string{{
		"experiment", "case", "variant", "figure", "unit", "median", "from", "to", "seeds", "commit", "line",
	}}
	for _, c := range r.In(e.ID) {
		for _, v := range c.Variants {
			line := c.Lines[v.String()] // stands in the first row that it is of
			for _, shown := range e.shown {
				m, from, to, ok := r.Median(c, v, shown.Figure)
				if !ok {
					continue
				}
				table = append(table, []string{
					e.ID, c.Name, v.String(), shown.Figure, Unit(shown.Figure), fmt.Sprint(m), fmt.Sprint(from),
					fmt.Sprint(to), fmt.Sprint(len(r.Values(c, v, shown.Figure))), r.commitOf(c), line,
				})
				line = ""
			}
		}
	}
	return asCSV(table)
}

// maps returns C1 as maps, and as a file: a line for each place on a map.
func (r *Results) maps() ([]heatMap, template.URL) {
	table := [][]string{{"map", "unit", "hop", "one way", "value", "case", "commit", "line"}}
	share := func(figure string) func(*CaseText) (float64, float64, bool) {
		return func(c *CaseText) (float64, float64, bool) {
			x, ok := medianOf(r.Ratios(c, lab.FastCNP, lab.CNP, figure))
			return x * 100, 1 - x, ok
		}
	}
	kinds := []struct {
		title, unit string
		of          func(c *CaseText) (value, gain float64, ok bool) // gain: above 0 is better, 1 is much
		format      string
	}{
		{"until the first cut, as a share of that with CNPs", "%", share(firstCut), "%.0f"},
		{"use of the link, gained", "points", func(c *CaseText) (float64, float64, bool) {
			x, ok := difference(r, c, use)
			return x, x / 30, ok
		}, "%+.1f"},
		{"peak of the queue in the steady state, as a share of that with CNPs", "%", share(later), "%.0f"},
		{"peak of the queue from the start, as a share of that with CNPs", "%", share(peak), "%.0f"},
	}
	cases := r.In(positions.ID)
	var ways, hops []Coordinate
	for _, c := range cases {
		way, _ := c.Coordinate("one way")
		hop, _ := c.Coordinate("hop")
		if !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
		if !slices.Contains(hops, hop) {
			hops = append(hops, hop)
		}
	}
	var all []heatMap
	for _, k := range kinds {
		m := heatMap{Title: k.title, Unit: k.unit}
		some := false
		for _, way := range ways {
			m.Ways = append(m.Ways, timeText(way.Value))
		}
		for _, hop := range hops {
			row := heatRow{Hop: fmt.Sprintf("%s of %d", hop.Text, lineSwitches)}
			for _, way := range ways {
				cell := heatCell{Text: "–", Class: "same"}
				i := slices.IndexFunc(cases, func(c *CaseText) bool {
					w, _ := c.Coordinate("one way")
					h, _ := c.Coordinate("hop")
					return w == way && h == hop
				})
				if i >= 0 {
					if x, gain, ok := k.of(cases[i]); ok {
						cell = gainColour(gain)
						cell.Text, cell.Title = fmt.Sprintf(k.format, x), cases[i].Name
						some = true
						table = append(table, []string{
							k.title, k.unit, hop.Text, way.Text, fmt.Sprint(x), cases[i].Name, r.commitOf(cases[i]),
							cases[i].formatConditions(),
						})
					}
				}
				row.Cells = append(row.Cells, cell)
			}
			m.Rows = append(m.Rows, row)
		}
		if some {
			all = append(all, m)
		}
	}
	return all, asCSV(table)
}

// gainColour returns a cell for a gain; less than 2 % is none.
func gainColour(gain float64) heatCell {
	c := heatCell{Class: "same", Strength: min(int(math.Abs(gain)*60)+8, 68)}
	switch {
	case gain > 0.02:
		c.Class = "better"
	case gain < -0.02:
		c.Class = "worse"
	}
	return c
}

func medianOf(values []float64) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	m, _, _ := lab.Median(values)
	return m, true
}

// difference returns the median difference of a figure between Fast CNPs and CNPs.
func difference(r *Results, c *CaseText, figure string) (float64, bool) {
	var all []float64
	for _, p := range r.figurePairs(c, lab.FastCNP, c, lab.CNP, figure) {
		all = append(all, p[0]-p[1])
	}
	return medianOf(all)
}

// The size of figures in their own units.
const (
	wide = 640
	tall = 260
)

var compared = []lab.Variant{lab.CNP, lab.FastCNP, lab.Oracle}

// frontier returns a network of C14 as a figure: use to the right, peak upwards, which is worse.
func (r *Results) frontier(network string) (f frontier, ok bool) {
	all := map[lab.Variant][]Point{}
	minUse, low, high := 99., math.Inf(1), 0. // so that the axis has a length
	for _, v := range compared {
		all[v] = r.Frontier(network, v)
		for _, p := range all[v] {
			ok = true
			minUse, low, high = min(minUse, p.Use), min(low, p.Peak), max(high, p.Peak)
		}
	}
	if !ok {
		return f, false
	}
	minUse = math.Floor(minUse/10) * 10
	bottom, top := math.Floor(math.Log10(max(low, 1))), math.Ceil(math.Log10(max(high, 10)))
	if top == bottom {
		top++
	}
	x := func(u float64) string { return tenths((u - minUse) / (100 - minUse) * wide) }
	y := func(p float64) string { return tenths(tall - (math.Log10(max(p, 1))-bottom)/(top-bottom)*tall) }
	f.Network = network
	for u := minUse; u <= 100; u += max(math.Floor((100-minUse)/4/5)*5, 5) {
		f.XTicks = append(f.XTicks, tick{x(u), fmt.Sprintf("%.0f %%", u)})
	}
	for e := bottom; e <= top; e++ {
		f.YTicks = append(f.YTicks, tick{y(math.Pow(10, e)), sizeText(math.Pow(10, e))})
	}
	for _, v := range compared {
		c := curve{Class: v.String()}
		for _, p := range all[v] {
			c.to(x(p.Use), y(p.Peak))
			title := fmt.Sprintf("%v: %.4g %% used, peak %.4g KB; %s", v, p.Use, p.Peak, p.Thresholds())
			c.Points = append(c.Points, dot{x(p.Use), y(p.Peak), title})
		}
		f.Curves = append(f.Curves, c)
	}
	return f, true
}

// tenths returns a place in a figure.
func tenths(x float64) string { return fmt.Sprintf("%.1f", x) }

// timeText returns microseconds in words.
func timeText(t float64) string {
	if t >= 1000 {
		return fmt.Sprintf("%g ms", t/1000)
	}
	return fmt.Sprintf("%g µs", t)
}

// sizeText returns KB in words.
func sizeText(kb float64) string {
	switch {
	case kb >= 1e6:
		return fmt.Sprintf("%g GB", kb/1e6)
	case kb >= 1e3:
		return fmt.Sprintf("%g MB", kb/1e3)
	}
	return fmt.Sprintf("%g KB", kb)
}

// allMoments returns the runs over time.
func (r *Results) allMoments() (all []moment) {
	for i := 0; i < len(r.Series); {
		same := r.Series[i:]
		if j := slices.IndexFunc(same, func(s Series) bool { return s.Name != r.Series[i].Name }); j > 0 {
			same = same[:j]
		}
		i += len(same)
		m := moment{Number: len(all) + 1, Name: same[0].Name, Port: same[0].Port}
		m.Data.Every = same[0].Every
		m.Length = fmt.Sprintf("%g ms", same[0].Every*float64(len(same[0].Queue))/1000)
		high, fastest := 1., 1.
		for _, s := range same {
			high, fastest = max(high, slices.Max(s.Queue)), max(fastest, slices.Max(s.Rate))
		}
		top := math.Ceil(math.Log10(high))
		for e := 0.; e <= top; e++ {
			m.YTicks = append(m.YTicks, tick{tenths(tall - e/top*tall), sizeText(math.Pow(10, e))})
		}
		m.RateTop = fmt.Sprintf("%.0f Gbit/s", fastest)
		if fastest >= 1000 {
			m.RateTop = fmt.Sprintf("%.2g Tbit/s", fastest/1000)
		}
		table := [][]string{{"time, µs", "variant", "queue, KB", "use, %", "rate, Gbit/s", "notifications", "line"}}
		for _, s := range same {
			m.Lines = append(m.Lines, s.Line)
			line := s.Line // stands in the first row that it is of
			queue, rate := curve{Class: s.Variant.String()}, curve{Class: s.Variant.String()}
			for k := range s.Queue {
				at := tenths(float64(k) / float64(max(len(s.Queue)-1, 1)) * wide)
				queue.to(at, tenths(tall-math.Log10(max(s.Queue[k], 1))/top*tall))
				rate.to(at, tenths(tall-math.Log10(max(s.Rate[k], 1))/math.Log10(max(fastest, 10))*tall))
				table = append(table, []string{
					fmt.Sprint(float64(k+1) * s.Every), s.Variant.String(), fmt.Sprint(s.Queue[k]),
					fmt.Sprint(s.Use[k]), fmt.Sprint(s.Rate[k]), fmt.Sprint(s.Notices[k]), line,
				})
				line = ""
			}
			m.Curves, m.Rates = append(m.Curves, queue), append(m.Rates, rate)
			m.Data.Variants = append(m.Data.Variants, s.Variant.String())
			m.Data.Queue, m.Data.Rate = append(m.Data.Queue, s.Queue), append(m.Data.Rate, s.Rate)
			m.Data.Use = append(m.Data.Use, s.Use)
		}
		m.CSV = asCSV(table)
		all = append(all, m)
	}
	return all
}

func (r *Results) pageExperiment(e *Experiment) pageExperiment {
	p := pageExperiment{ID: e.ID, Title: e.Title, Asks: e.Asks, CSV: r.table2csv(e)}
	cases := r.In(e.ID)
	var variants []lab.Variant
	for _, c := range cases {
		for _, v := range c.Variants {
			if !slices.Contains(variants, v) {
				variants = append(variants, v)
			}
		}
		lines := c.formatConditions()
		i := slices.IndexFunc(p.Conditions, func(d condition) bool { return d.Lines == lines })
		if i < 0 {
			p.Conditions = append(p.Conditions, condition{c.Name, lines})
		} else {
			p.Conditions[i].Cases += "; " + c.Name
		}
	}
	for _, shown := range e.shown {
		t, some := pageTable{Figure: shown.Figure, Unit: Unit(shown.Figure)}, false
		for _, v := range variants {
			t.Variants = append(t.Variants, v.String())
		}
		for _, c := range cases {
			row := pageTableRow{Case: c.Name}
			for _, v := range variants {
				m, from, to, ok := r.Median(c, v, shown.Figure)
				cell := pageCell{Median: "–", Bounds: r.formatUnfinished(c, v, shown.Figure, from, to)}
				steady := r.Steadiness(c, v, shown.Figure)
				switch {
				case ok && steady == NotSteady:
					some = true
					cell = pageCell{Median: "not steady"}
				case ok:
					some = some || m != 0 || to != 0
					cell.Median = scenario.Figure(m) + steady.mark()
					cell.Class = r.formatAgainst(c, v, shown)
				}
				row.Cells = append(row.Cells, cell)
			}
			t.Rows = append(t.Rows, row)
		}
		if some {
			p.Tables = append(p.Tables, t)
		}
	}
	return p
}

// figureGain returns the improvement of a figure of a variant over CNPs, in percent, seed by seed, with bounds.
// Figures that leave out unfinished messages are not compared.
func (r *Results) figureGain(c *CaseText, v lab.Variant, s Shown) (m, from, to float64, ok bool) {
	ratios := r.Ratios(c, v, lab.CNP, s.Figure)
	_, unfinished := r.countUnfinished(c, v, s.Figure)
	_, unfinishedByCNP := r.countUnfinished(c, lab.CNP, s.Figure)
	if s.Better == 0 || len(ratios) == 0 || unfinished+unfinishedByCNP > 0 || !r.Steadiness(c, v, s.Figure).IsShown() ||
		!r.Steadiness(c, lab.CNP, s.Figure).IsShown() {
		return 0, 0, 0, false
	}
	for i := range ratios {
		ratios[i] = (ratios[i] - 1) * 100 * float64(s.Better)
	}
	m, from, to = lab.Median(ratios)
	return m, from, to, true
}

// enough is the gain, in percent, that counts as one.
const enough = 5

// formatAgainst returns better or worse if both bounds exceed enough, otherwise nothing.
func (r *Results) formatAgainst(c *CaseText, v lab.Variant, s Shown) string {
	if v == lab.CNP {
		return ""
	}
	_, from, to, ok := r.figureGain(c, v, s)
	if change, is := r.Change(c, v, s.Figure); is && change.Seeds > 1 && !change.Significant() {
		return ""
	}
	switch {
	case ok && from > enough:
		return "better"
	case ok && to < -enough:
		return "worse"
	}
	return ""
}

// allVerdicts returns the cases in which no figure is better with Fast CNPs than with CNPs, and the figures that are
// worse. The time of the first cut does not count: it is a property of the signal, not a result of it.
func (r *Results) allVerdicts() (nothing, worse []verdict) {
	for _, e := range All() {
		if e.ID == frontiers.ID {
			continue
		}
		for _, c := range r.In(e.ID) {
			some, any := false, false
			best := verdict{gain: math.Inf(-1)}
			for _, s := range e.shown {
				m, from, to, ok := r.figureGain(c, lab.FastCNP, s)
				if !ok || strings.HasPrefix(s.Figure, "onset") || s.Figure == octets || s.Figure == notified {
					continue
				}
				any = true
				some = some || from > enough
				ends := []float64{from * float64(s.Better), to * float64(s.Better)}
				slices.Sort(ends)
				v := verdict{
					Experiment: e.ID, Case: c.Name, Figure: s.Figure,
					change: m * float64(s.Better), from: ends[0], to: ends[1], gain: m, of: c,
					seeds: len(r.Ratios(c, lab.FastCNP, lab.CNP, s.Figure)), all: len(r.selectRuns(c, lab.FastCNP)),
				}
				if m > best.gain {
					best = v
				}
				if to < -enough {
					worse = append(worse, v)
				}
			}
			if any && !some {
				nothing = append(nothing, best)
			}
		}
	}
	return nothing, worse
}
