package flows

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
)

// A topOrder is the most frequent trouble of the worst flow.
type topOrder int

const (
	byNotifications topOrder = iota
	byRetransmissions
	byStalls
	byRate
)

var topOrders = [...]string{"notifications", "repeats", "stalls", "rate"}

// topKeys are the keys for the orders.
const topKeys = "nrsb"

// A topRow is a flow in a block.
type topRow struct {
	flow   *flows.Flow
	silent time.Duration // 0: something came in the interval
	by     [len(topOrders)]float64
}

// rowOf is the row of a flow of which something came.
func rowOf(f *flows.Flow) topRow {
	r := topRow{flow: f}
	r.by[byNotifications] = float64(countNotifications(&f.Answers))
	r.by[byRetransmissions] = float64(f.PSN.Retransmitted)
	r.by[byStalls] = float64(f.Causes.Timeout)
	r.by[byRate] = f.Data.Mean
	return r
}

// worstRows returns the rows in order: by the number that was asked for, then by the
// others.
func (w *watch) worstRows() []topRow {
	var all []topRow
	for i := range w.last.Flows {
		all = append(all, rowOf(&w.last.Flows[i]))
	}
	for i := range w.silent {
		r := topRow{flow: &w.silent[i], silent: w.to.Sub(w.silent[i].Last)}
		r.by[byStalls] = r.silent.Seconds() * 1e9 // before those that go on
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b topRow) int {
		return cmp.Or(w.order.compare(&a.by, &b.by), a.flow.FlowKey.Compare(b.flow.FlowKey))
	})
	return all
}

// compare compares by the number that was asked for, then by the others, the largest ones first.
func (o topOrder) compare(a, b *[len(topOrders)]float64) int {
	c := cmp.Compare(b[o], a[o])
	for i := 0; c == 0 && i < len(topOrders); i++ {
		c = cmp.Compare(b[i], a[i])
	}
	return c
}

// A topLine is a line of a block, of parts that may have colours.
type topLine []cell

// formatBlock returns the output, in lines up to a width. With a height of 0 it has the number of flows of -top,
// otherwise at most that many lines.
func (w *watch) formatBlock(width, height int) (b []byte) {
	var lines []topLine
	for _, l := range w.headLines() {
		lines = append(lines, l.wrap(width)...)
	}
	if height > 0 { // a third for flows
		lines = lines[:min(len(lines), height-height/3)]
	}
	lines = append(lines, topLine{})
	rows := w.worstRows()
	freeRows := w.rows
	if height > 0 {
		freeRows = max(height-len(lines)-1, 0) // and the headings
	}
	if height > 0 && len(rows) > freeRows {
		freeRows = max(freeRows-1, 0) // and the number of the others
	}
	lines = append(lines, w.tableLines(rows[:min(len(rows), freeRows)], width)...)
	if more := len(rows) - freeRows; more > 0 {
		lines = append(lines, topLine{{Text: fmt.Sprintf("and %s", cli.Count(more, "more flow"))}})
	}
	if height > 0 {
		lines = lines[:min(len(lines), height)]
	}
	for _, l := range lines {
		b = append(w.appendLine(b, l, width), '\n')
	}
	return b
}

// appendLine appends a line. A word that is longer than the width is truncated.
func (w *watch) appendLine(b []byte, l topLine, width int) []byte {
	h := human{colour: w.colour}
	for _, c := range l {
		text := c.Text
		if n := utf8.RuneCountInString(text); n > width {
			text = string([]rune(text)[:width])
		}
		width -= utf8.RuneCountInString(text)
		b = h.colourText(b, text, c.colour)
	}
	return b
}

// alarmingPart is a part that has a colour unless its number is 0.
func alarmingPart(n float64, colour, format string, args ...any) cell {
	c := cell{Text: fmt.Sprintf(format, args...)}
	if n > 0 {
		c.colour = colour
	}
	return c
}

// headLines returns the lines above the flows.
func (w *watch) headLines() (lines []topLine) {
	t := totalsOf(&flows.Snapshot{Flows: w.last.Flows, Unpaired: w.last.Unpaired})
	second := func(n uint64) string { return perSecond(n, w.interval) }
	first := "rocecn top " + cli.Printable(w.name)
	if w.to.IsZero() {
		first += ", no packet yet"
	} else {
		first += fmt.Sprintf(", %v from %s", w.interval, formatTime(w.from))
	}
	first += ", the worst by " + topOrders[w.order]
	lines = append(lines, topLine{{Text: first}})
	sum, bits := t.metrics, uint64(float64(t.metrics["ip_octets"])*8)
	lines = append(lines, topLine{
		{Text: fmt.Sprintf("%s, ", cli.Count(len(w.last.Flows), "flow"))},
		alarmingPart(float64(t.trouble), yellow, "%d in trouble", t.trouble),
		{Text: ", "}, alarmingPart(float64(len(w.silent)), red, "%d silent since in trouble", len(w.silent)),
		{Text: fmt.Sprintf("; a second: %s packets of data, %s bit", second(sum["data.packets"]), second(bits))},
	})
	notified := uint64(0)
	for _, name := range noticeMetrics {
		notified += sum[name]
	}
	lines = append(lines, topLine{
		{Text: "notifications a second: "}, alarmingPart(float64(notified), yellow, "%s", second(notified)),
		{Text: fmt.Sprintf(" (CNP %s, Fast CNP %s, PPFC %s, FCN %s, proxy %s)",
			second(sum["cnps.receiver"]), second(sum["cnps.fast"]), second(sum["ppfc"]), second(sum["fcn"]),
			second(sum["proxy"]))},
	})
	timeouts, naks, rnrs := sum["repeats_by.timeout"], sum["naks"], sum["rnr_naks"]
	retransmitted := sum["repeats_by.nak"] + sum["repeats_by.rnr"] + sum["repeats_by.read"] + timeouts
	lines = append(lines, topLine{
		alarmingPart(float64(retransmitted), red, "retransmissions %d", retransmitted), {Text: ", "},
		alarmingPart(float64(timeouts), red, "%d after a timeout", timeouts), {Text: "; "},
		alarmingPart(float64(naks), red, "NAK %d", naks), {Text: ", "},
		alarmingPart(float64(rnrs), red, "RNR NAK %d", rnrs), {Text: "; "},
		alarmingPart(float64(sum["data.ce"]), yellow, "CE %s", formatPercent(sum["data.ce"], sum["data.packets"])),
	})
	lines = append(lines, w.pauseLines()...)
	lines = append(lines, w.verdictLines()...)
	lines = append(lines, w.receiverLines()...)
	s := w.last.Stats
	lost, evicted := w.reader.droppedPackets(), w.of.table.Evicted().Flows
	return append(lines, topLine{
		{Text: "not seen since the start: "},
		alarmingPart(float64(lost), red, "%d dropped by the kernel", lost), {Text: ", "},
		alarmingPart(float64(evicted), yellow, "%s evicted", cli.Count(evicted, "flow")), {Text: ", "},
		alarmingPart(float64(s.Truncated), yellow, "%d truncated by the snapshot length", s.Truncated), {Text: ", "},
		alarmingPart(float64(s.Broken), yellow, "%d broken", s.Broken),
	})
}

// maxPauses is the number of priorities shown, maxVerdicts that of verdicts, and maxReceivers that of receivers.
const (
	maxPauses    = 4
	maxVerdicts  = 3
	maxReceivers = 3
)

// verdictLines returns lines for the verdicts with evidence in the interval.
func (w *watch) verdictLines() (lines []topLine) {
	if w.of.table.Evicted().Flows > 0 {
		return []topLine{{{Text: "verdict: none, because flows were evicted (-max-flows)"}}}
	}
	type finding struct {
		cause triage.Cause
		party string // or the first suspect
	}
	var all []finding
	flowsOf := map[finding]int{}
	for i := range w.verdicts {
		v := &w.verdicts[i]
		f := finding{v.Cause, v.Party}
		if v.Party == "" && len(v.Suspects) > 0 {
			f.party = "perhaps " + v.Suspects[0]
		}
		if _, known := flowsOf[f]; !known {
			all = append(all, f)
		}
		flowsOf[f] += len(v.Flows)
	}
	for i, f := range all[:min(len(all), maxVerdicts)] {
		colour := red
		if f.cause.IsSymptom() {
			colour = yellow
		}
		text := f.cause.String()
		if f.party != "" {
			text += ": " + f.party
		}
		line := topLine{{Text: "verdict: "}, {Text: text, colour: colour}}
		if n := flowsOf[f]; n > 0 {
			line = append(line, cell{Text: ", " + cli.Count(n, "flow")})
		}
		if more := len(all) - maxVerdicts; i == maxVerdicts-1 && more > 0 {
			line = append(line, cell{Text: fmt.Sprintf(", and %s", cli.Count(more, "more verdict"))})
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		lines = []topLine{{{Text: "verdict: nothing to explain"}}}
	}
	return lines
}

// A receiverSum is the sum of the flows to an address.
type receiverSum struct {
	address     netip.Addr
	flows       uint64
	packets, ce uint64
	by          [len(topOrders)]float64
}

// receiverLines returns the sums of the flows to the receivers, the worst ones first.
func (w *watch) receiverLines() (lines []topLine) {
	index := map[netip.Addr]int{}
	var all []receiverSum
	for i := range w.last.Flows {
		f := &w.last.Flows[i]
		at, known := index[f.Dst]
		if !known {
			at = len(all)
			index[f.Dst] = at
			all = append(all, receiverSum{address: f.Dst})
		}
		r := &all[at]
		r.flows++
		r.packets += f.Data.Packets
		r.ce += f.Data.CE
		for j, n := range rowOf(f).by {
			r.by[j] += n
		}
	}
	slices.SortFunc(all, func(a, b receiverSum) int {
		return cmp.Or(w.order.compare(&a.by, &b.by), a.address.Compare(b.address))
	})
	for _, r := range all[:min(len(all), maxReceivers)] {
		lines = append(lines, topLine{
			{Text: fmt.Sprintf("to %v: %s, %s bit/s, ", r.address, cli.Count(r.flows, "flow"),
				formatScaled(r.by[byRate]))},
			alarmingPart(float64(r.ce), yellow, "CE %s", formatPercent(r.ce, r.packets)), {Text: ", "},
			alarmingPart(r.by[byNotifications], yellow, "%s",
				cli.Count(uint64(r.by[byNotifications]), "notification")), {Text: ", "},
			alarmingPart(r.by[byRetransmissions], red, "retransmissions %.0f", r.by[byRetransmissions]),
		})
	}
	if more := len(all) - maxReceivers; more > 0 {
		last := &lines[len(lines)-1]
		*last = append(*last, cell{Text: fmt.Sprintf(", and %s", cli.Count(more, "more receiver"))})
	}
	return lines
}

// pauseLines returns lines for the paused priorities, the longest pauses first.
func (w *watch) pauseLines() (lines []topLine) {
	type pause struct {
		name string
		of   flows.Priority
	}
	var all []pause
	for i := range w.last.Links {
		for priority, p := range eachPriority(&w.last.Links[i]) {
			what := ", priority " + priority
			if priority == "all" {
				what = ", all priorities"
			}
			all = append(all, pause{w.last.Links[i].Src.String() + what, *p})
		}
	}
	slices.SortStableFunc(all, func(a, b pause) int {
		return cmp.Or(cmp.Compare(b.of.Paused, a.of.Paused), cmp.Compare(b.of.XOFF, a.of.XOFF))
	})
	for _, p := range all[:min(len(all), maxPauses)] {
		const format = "paused by %s: %s of the time, %d XOFF, %d XON"
		lines = append(lines, topLine{alarmingPart(float64(p.of.Paused), yellow, format, p.name,
			formatPercent(uint64(p.of.Paused), uint64(w.interval)), p.of.XOFF, p.of.XON)})
	}
	switch more := len(all) - maxPauses; {
	case len(all) == 0:
		lines = append(lines, topLine{{Text: "paused: no PFC or PAUSE frame seen"}})
	case more > 0:
		lines = append(lines, topLine{{Text: "and " + cli.Count(more, "other pause")}})
	}
	return lines
}

// perSecond formats a rate per second.
func perSecond(n uint64, during time.Duration) string {
	rate := float64(n) / during.Seconds()
	if n > 0 && rate < 10 {
		return fmt.Sprintf("%.1f", rate)
	}
	return formatScaled(rate)
}

func formatPercent(n, of uint64) string {
	if of == 0 {
		return none
	}
	return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(of))
}

// topColumn is a column of a block.
type topColumn struct {
	name string
	of   func(f *flows.Flow) cell
}

var topColumns = []topColumn{
	{"QP", metricColumn("QP")},
	{"NOTIF", func(f *flows.Flow) cell {
		return countCell(rowOf(f).by[byNotifications], true, yellow)
	}},
	{"RETRANS", metricColumn("RETRANS")},
	{"TIMEOUT", countColumn("repeats_by.timeout", red)},
	{"MISSING", metricColumn("MISSING")},
	{"NAK", func(f *flows.Flow) cell { return countCell(float64(countNAKs(&f.Answers)+f.RNRNAKs), true, red) }},
	{"CE", metricColumn("CE")},
	{"RTT P99", metricColumn("RTT P99")},
	{"BIT/S", metricColumn("BIT/S")},
}

// metricColumn returns the cells of a column of the table of rocecn flows.
func metricColumn(name string) func(f *flows.Flow) cell {
	return flowColumns[slices.IndexFunc(flowColumns, func(c column) bool { return c.short == name })].of
}

// leastTopColumns are the columns that a narrow terminal does not show, the first one first.
var leastTopColumns = []string{"RTT P99", "MISSING", "TIMEOUT", "NAK", "CE", "RETRANS", "NOTIF", "QP"}

// shortName is the number of columns for shortened addresses.
const shortName = 15

// tableLines returns headings and flows, each in one line of whole numbers. Columns are left out, and addresses are
// shortened, if they do not fit.
func (w *watch) tableLines(rows []topRow, width int) (lines []topLine) {
	if len(rows) == 0 {
		return nil
	}
	cells := [][]cell{{}}
	widths := make([]int, len(topColumns))
	for i, c := range topColumns {
		cells[0] = append(cells[0], cell{Text: c.name})
		widths[i] = len(c.name)
	}
	names := 0
	for _, r := range rows {
		var row []cell
		for i, c := range topColumns {
			made := c.of(r.flow)
			if r.silent > 0 && i > 0 {
				made = cell{Text: none} // its former trouble is over
			}
			if r.silent > 0 && c.name == "BIT/S" {
				made = cell{Text: "silent " + formatDuration(r.silent), colour: red}
			}
			row = append(row, cell{Text: made.inTerminal(), colour: made.colour})
			widths[i] = max(widths[i], row[i].width())
		}
		cells = append(cells, row)
		names = max(names, len(formatPair(r.flow)))
	}
	// Four columns are left out for long names, the others only for short ones.
	kept := fitColumns(cells, widths, width, names, leastTopColumns[:4])
	if free := freeColumns(kept, widths, width); free < min(names, shortName) {
		kept = fitColumns(cells, widths, width, min(names, shortName), leastTopColumns)
	}
	names = max(min(names, freeColumns(kept, widths, width)), len("FLOW"))
	for i, row := range cells {
		text := "FLOW"
		if i > 0 {
			text = formatPairIn(rows[i-1].flow.Src, rows[i-1].flow.Dst, names)
		}
		line := topLine{{Text: text + strings.Repeat(" ", max(names-utf8.RuneCountInString(text), 0))}}
		for _, i := range kept {
			c := row[i]
			line = append(line, cell{Text: strings.Repeat(" ", 1+widths[i]-c.width())}, c)
		}
		lines = append(lines, line)
	}
	return lines
}

// freeColumns returns the columns of a width that are left beside those of a table.
func freeColumns(kept, widths []int, width int) int {
	for _, i := range kept {
		width -= widths[i] + 1
	}
	return width
}
