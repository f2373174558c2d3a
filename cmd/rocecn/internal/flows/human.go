package flows

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
)

// columns is the maximum width of the table, unless addresses alone are wider.
const columns = 120

// A human prints tables for people.
type human struct {
	colour   bool
	explains bool // also print the reaction of flows to CNPs
	terminal int  // width of the terminal; 0 if the output is none
}

// width returns the maximum width of lines.
func (h *human) width() int {
	if h.terminal > 0 {
		return min(h.terminal, columns)
	}
	return columns
}

// leastColumns are the columns that a narrow terminal does not show, the first one first. Most of their numbers are in
// the remarks below the flows.
var leastColumns = []string{"TR", "RNR", "REORDER", "NAK", "RTT P99", "MISSING", "CNP", "PACKETS"}

const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// appendTable appends the table of a snapshot, the flows in their order.
func (h *human) appendTable(b []byte, s *flows.Snapshot) []byte {
	rows, names, remarks := make([][]cell, 1+len(s.Flows)), []string{"FLOW"}, [][]string{}
	for i := range s.Flows {
		f := &s.Flows[i]
		words := formatRemarks(f)
		if h.explains {
			words = append(words, formatControl(f)...)
		}
		names, remarks = append(names, formatPair(f)), append(remarks, words)
	}
	for _, c := range flowColumns {
		if c.short == "" {
			continue
		}
		rows[0] = append(rows[0], cell{Text: c.short})
		for i := range s.Flows {
			rows[1+i] = append(rows[1+i], c.of(&s.Flows[i]))
		}
	}
	if len(s.Flows) > 0 {
		b = h.appendAligned(b, names, rows, remarks, h.width())
	}
	for i := range s.Unpaired {
		u := &s.Unpaired[i]
		to := ""
		if u.WithQP {
			to = " qp " + queuePair(u.DestQP)
		}
		b = h.colourText(b, "unpaired", yellow)
		b = fmt.Appendf(b, "  %v > %v%s: %s\n", u.Src, u.Dst, to, strings.Join(formatAnswers(&u.Answers), ", "))
	}
	for i := range s.Links {
		l := &s.Links[i]
		text := fmt.Sprintf("PFC  %s: %s", linkName(l), strings.Join(formatPauses(l), "; "))
		if utf8.RuneCountInString(text) > h.width() {
			text = fmt.Sprintf("PFC  %s:\n  %s", linkName(l), strings.Join(formatPauses(l), "\n  "))
		}
		b = append(append(b, text...), '\n')
	}
	if e := &s.Evicted; anyEvicted(e) {
		b = h.colourText(b, "evicted", yellow)
		b = fmt.Appendf(b, "  %s with %s, %s, because the table was full: -max-flows\n",
			cli.Count(e.Flows, "flow"), cli.Count(e.Packets, "packet"), cli.Count(e.IPOctets, "octet"))
	}
	if n := s.Stats.Unlearned; n > 0 {
		b = h.colourText(b, "unlearned", yellow)
		b = fmt.Appendf(b, "  queue pairs may be unknown: the tables were full for %s: -max-flows\n",
			cli.Count(n, "packet"))
	}
	return b
}

// appendAligned appends rows after their names, and remarks below each row. The first row has the headings, and no
// remarks. In a terminal, columns that do not fit are left out. Names that do not fit have a line of their own.
func (h *human) appendAligned(b []byte, names []string, rows [][]cell, remarks [][]string, width int) []byte {
	widths := make([]int, len(rows[0]))
	longest := 0
	for i, row := range rows {
		if i > 0 {
			longest = max(longest, len(names[i]))
		}
		for j, c := range row {
			widths[j] = max(widths[j], c.width())
		}
	}
	kept := make([]int, len(widths))
	for i := range kept {
		kept[i] = i
	}
	if h.terminal > 0 {
		kept = fitColumns(rows, widths, width, longest, leastColumns)
	}
	name := max(min(longest, freeColumns(kept, widths, width)), len(names[0]))
	for i, row := range rows {
		text := names[i]
		if len(text) > name { // on a line of its own
			b = append(append(b, text...), '\n')
			text = ""
		}
		b = fmt.Appendf(b, "%-*s", name, text)
		for _, j := range kept {
			b = append(b, strings.Repeat(" ", 1+widths[j]-row[j].width())...)
			b = h.colourText(b, row[j].inTerminal(), row[j].colour)
		}
		b = append(b, '\n')
		if i > 0 {
			for _, line := range wrapParts(remarks[i-1], h.width()-2) {
				b = fmt.Appendf(b, "  %s\n", line)
			}
		}
	}
	return b
}

// colourText appends a text in a colour, if there are any.
func (h *human) colourText(b []byte, text, colour string) []byte {
	if !h.colour || colour == "" {
		return append(b, text...)
	}
	return append(append(append(b, colour...), text...), plain...)
}

func formatPair(f *flows.Flow) string { return f.Src.String() + " > " + f.Dst.String() }

// formatScaled writes a number with at most four digits.
func formatScaled(n float64) string {
	if n < 10000 {
		return fmt.Sprintf("%.0f", n)
	}
	for _, unit := range "kMGT" {
		switch n /= 1000; {
		case n < 10:
			return fmt.Sprintf("%.2f%c", n, unit)
		case n < 100:
			return fmt.Sprintf("%.1f%c", n, unit)
		case n < 1000:
			return fmt.Sprintf("%.0f%c", n, unit)
		}
	}
	return fmt.Sprintf("%.0fP", n/1000)
}

// formatDuration writes a time with three digits.
func formatDuration(d time.Duration) string {
	if d < 0 {
		return "-" + formatDuration(-max(d, -math.MaxInt64))
	}
	digit := time.Duration(1)
	for d/1000 >= digit {
		digit *= 10
	}
	if d > math.MaxInt64-digit { // it cannot be rounded up
		return d.Truncate(digit).String()
	}
	return d.Round(digit).String()
}

// formatRemarks describes in words the values of a flow that have no column.
func formatRemarks(f *flows.Flow) (all []string) {
	add := func(n uint64, format string) {
		if n > 0 {
			all = append(all, fmt.Sprintf(format, n))
		}
	}
	p, c := &f.PSN, &f.Causes
	add(f.FirstTrouble, "since frame %d")
	add(p.Gaps, "gaps: %d")
	add(p.Lost, "%d lost")
	add(p.Unseen, "%d not captured")
	add(p.Unjudged, "%d lost or not captured")
	switch {
	case p.Retransmitted > 0:
		add(p.Late, "%d out of order or retransmitted")
	case p.NeverSeen() == 0:
		add(p.Late, "%d out of order, none lost")
	default:
		add(p.Late, "%d out of order")
	}
	add(c.NAK, "%d retransmitted after NAKs")
	add(c.RNR, "%d retransmitted after RNR NAKs")
	add(c.Read, "%d retransmitted for the rest of a READ")
	add(c.Timeout, "%d retransmitted after a timeout")
	add(c.Spurious, "%d of these although nothing was lost")
	if g := f.GaveUp; g != nil {
		all = append(all, fmt.Sprintf("gave up after %s (frame %d)", cli.Count(g.Retries, "retransmission"), g.Frame))
	}
	add(p.Copies, "%d copied by the network")
	if p.Connections > 1 {
		add(p.Connections, "%d connections")
	}
	more := f.Answers
	more.ACKs, more.RNRNAKs, more.CNPs = 0, 0, 0 // the table has columns for RNR NAKs and CNPs; ACKs are no trouble
	all = append(all, formatAnswers(&more)...)
	add(f.Trimmed, "%d trimmed by a switch")
	add(f.TrimmedRecovered, "%d of these with a NAK or a retransmission")
	all = append(all, formatDiscards(f.Discards)...)
	add(f.ICRCWrong, "%d wrong ICRC")
	if f.Queue.Known && f.Queue.Depth > 0 {
		all = append(all, fmt.Sprintf("deepest queue %d at node %d", f.Queue.Depth, f.Queue.Node))
	}
	return all
}

// formatAnswers says which answers were counted.
func formatAnswers(a *flows.Answers) (all []string) {
	add := func(n uint64, what string) {
		if n > 0 {
			all = append(all, fmt.Sprint(n, " ", what))
		}
	}
	add(a.ACKs, "ACK")
	for code, n := range a.NAKs() {
		add(n, "NAK "+nakNames[code])
	}
	add(a.RNRNAKs, "RNR NAK")
	if timers := a.Timers(); len(timers) > 0 {
		all = append(all, "RNR timer "+formatTimers(timers))
	}
	add(a.CNPs, "CNP")
	add(a.FastCNPs, "Fast CNP")
	add(a.PPFC, "PPFC")
	add(a.FCN, "FCN")
	if a.Proxy > 0 {
		all = append(all, cli.Count(a.Proxy, "proxy message"))
	}
	w := &a.Wrong
	for _, c := range []struct {
		n    uint64
		what string
	}{{w.ACKs, "ACK"}, {w.NAKs, "NAK"}, {w.RNRNAKs, "RNR NAK"}, {w.CNPs, "CNP"}, {w.FastCNPs, "Fast CNP"},
		{w.PPFC, "PPFC"}, {w.FCN, "FCN"}, {w.Proxy, "proxy message"}} {
		if c.n > 0 {
			all = append(all, cli.Count(c.n, c.what)+" with a wrong "+checksumName(c.what))
		}
	}
	return all
}

// formatTimers writes the least and the largest timer.
func formatTimers(all []time.Duration) string {
	least, largest := all[0], all[len(all)-1]
	if least == largest {
		return least.String()
	}
	return fmt.Sprintf("%v to %v", least, largest)
}

// checksumName returns the name of the checksum that protects an answer.
func checksumName(answer string) string {
	if answer == "FCN" || answer == "proxy message" {
		return "UDP checksum"
	}
	return "ICRC"
}

// wrapParts joins words with commas into lines of this width. Each begins with a word that fits, or has the parts of a
// long one.
func wrapParts(words []string, width int) (lines []string) {
	for i, word := range words {
		last, comma := len(lines)-1, 1
		if i == len(words)-1 {
			comma = 0
		}
		if last >= 0 && len(lines[last])+2+len(word)+comma <= width {
			lines[last] += ", " + word
			continue
		}
		if last >= 0 {
			lines[last] += ","
		}
		lines = append(lines, wrapText(word, width-1)...)
	}
	return slices.Clip(lines)
}
