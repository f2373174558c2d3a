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

// columns is how wide the table is at most, unless addresses alone are wider.
const columns = 120

// A human prints tables for people.
type human struct{ colour bool }

// cell is what stands in a column.
type cell struct {
	text   string
	colour string // an escape sequence; empty: none
}

const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	plain  = "\x1b[0m"
)

var headings = []string{"QP", "TR", "PACKETS", "BIT/S", "MISSING", "REORDER", "REPEATS",
	"CE", "CNP", "NAK", "RNR", "RTT P99"}

// append appends the table of a snapshot, the flows in their order.
func (h *human) append(b []byte, s *flows.Snapshot) []byte {
	rows := [][]cell{}
	widths := make([]int, len(headings))
	for i, heading := range headings {
		widths[i] = utf8.RuneCountInString(heading)
	}
	names := 0
	for i := range s.Flows {
		row := cells(&s.Flows[i])
		for j, c := range row {
			widths[j] = max(widths[j], utf8.RuneCountInString(c.text))
		}
		names = max(names, len(pair(&s.Flows[i])))
		rows = append(rows, row)
	}
	room := columns
	for _, w := range widths {
		room -= w + 1
	}
	name := max(min(names, room), len("FLOW"))

	if len(rows) > 0 {
		b = fmt.Appendf(b, "%-*s", name, "FLOW")
		for i, heading := range headings {
			b = fmt.Appendf(b, " %*s", widths[i], heading)
		}
		b = append(b, '\n')
	}
	for i, row := range rows {
		f := &s.Flows[i]
		text := pair(f)
		if len(text) > name { // on a line of its own
			b = append(append(b, text...), '\n')
			text = ""
		}
		b = fmt.Appendf(b, "%-*s", name, text)
		for j, c := range row {
			b = append(b, ' ')
			b = append(b, strings.Repeat(" ", widths[j]-utf8.RuneCountInString(c.text))...)
			b = h.appendCell(b, c)
		}
		b = append(b, '\n')
		for _, line := range wrap(remarks(f), columns-2) {
			b = fmt.Appendf(b, "  %s\n", line)
		}
	}
	for i := range s.Unpaired {
		u := &s.Unpaired[i]
		to := ""
		if u.WithQP {
			to = " qp " + queuePair(u.DestQP)
		}
		b = h.appendCell(b, cell{"unpaired", yellow})
		b = fmt.Appendf(b, "  %v > %v%s: %s\n", u.Src, u.Dst, to, strings.Join(counted(&u.Answers), ", "))
	}
	for i := range s.Links {
		l := &s.Links[i]
		text := fmt.Sprintf("PFC  %s: %s", linkName(l), strings.Join(said(l), "; "))
		if utf8.RuneCountInString(text) > columns {
			text = fmt.Sprintf("PFC  %s:\n  %s", linkName(l), strings.Join(said(l), "\n  "))
		}
		b = append(append(b, text...), '\n')
	}
	if e := &s.Evicted; anyEvicted(e) {
		b = h.appendCell(b, cell{"evicted", yellow})
		b = fmt.Appendf(b, "  there was no room for %s with %s, %s: -max-flows\n",
			cli.Count(e.Flows, "more flow"), cli.Count(e.Packets, "packet"), cli.Count(e.IPOctets, "octet"))
	}
	return b
}

func (h *human) appendCell(b []byte, c cell) []byte {
	if !h.colour || c.colour == "" {
		return append(b, c.text...)
	}
	return append(append(append(b, c.colour...), c.text...), plain...)
}

func pair(f *flows.Flow) string { return f.Src.String() + " > " + f.Dst.String() }

// cells returns what stands below the headings.
func cells(f *flows.Flow) []cell {
	qps := sourceQP(f) + " > " + queuePair(f.DestQP)
	psn := func(n uint64, colour string) cell {
		if !f.Sequenced {
			return cell{none, ""}
		}
		return counter(n, colour)
	}
	missing := yellow // by the capture
	if f.PSN.Lost+f.PSN.Unjudged > 0 {
		missing = red
	}
	rtt := cell{none, ""}
	if f.RTT != nil && f.RTT.Samples() > 0 {
		rtt.text = short(f.RTT.Percentile(0.99))
	}
	ce := cell{"0", ""}
	if n := f.ECN[3]; n > 0 {
		ce = cell{fmt.Sprintf("%.1f%%", 100*float64(n)/float64(max(f.Packets, 1))), yellow}
	}
	rate := cell{none, ""}
	if f.Mean > 0 {
		rate.text = scaled(f.Mean)
	}
	return []cell{
		{qps, ""}, {f.Transport.String(), ""}, {scaled(float64(f.Packets)), ""}, rate,
		psn(f.PSN.StayedMissing(), missing), psn(f.PSN.Late, yellow), psn(f.PSN.Repeats, red),
		ce, counter(f.CNPs+f.Fast, yellow), counter(sum(f.NAKs[:]), red), counter(f.RNRNAKs, red), rtt,
	}
}

// none stands where there is nothing to say.
const none = "–"

// queuePair writes a queue pair as inspect and pairs do.
func queuePair(qp uint32) string { return fmt.Sprintf("0x%06x", qp) }

// sourceQP writes the source queue pair of a flow, as far as it is known.
func sourceQP(f *flows.Flow) string {
	if f.SrcQPFrom == 0 {
		return "?"
	}
	return queuePair(f.SrcQP)
}

func counter(n uint64, colour string) cell {
	if n == 0 {
		colour = ""
	}
	return cell{scaled(float64(n)), colour}
}

// scaled writes a number with at most four digits.
func scaled(n float64) string {
	for _, unit := range []string{"", "k", "M", "G", "T"} {
		switch {
		case unit == "" && n < 10000:
			return fmt.Sprintf("%.0f", n)
		case unit != "" && n < 10:
			return fmt.Sprintf("%.2f%s", n, unit)
		case unit != "" && n < 100:
			return fmt.Sprintf("%.1f%s", n, unit)
		case unit != "" && n < 1000:
			return fmt.Sprintf("%.0f%s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.0fP", n)
}

// short writes a time with three digits.
func short(d time.Duration) string {
	if d < 0 {
		return "-" + short(-max(d, -math.MaxInt64))
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

// remarks say in words what the numbers of a flow do not.
func remarks(f *flows.Flow) (all []string) {
	add := func(n uint64, format string, more ...any) {
		if n > 0 {
			all = append(all, fmt.Sprintf(format, append([]any{n}, more...)...))
		}
	}
	p, c := &f.PSN, &f.Causes
	add(f.FirstTrouble, "since frame %d")
	add(p.Gaps, "gaps: %d")
	add(p.Lost, "%d lost")
	add(p.Unseen, "%d not captured")
	add(p.Unjudged, "%d lost or not captured")
	switch {
	case p.Repeats > 0:
		add(p.Late, "%d out of order or sent again")
	case p.StayedMissing() == 0:
		add(p.Late, "%d out of order, none lost")
	default:
		add(p.Late, "%d out of order")
	}
	add(c.NAK, "%d repeated after NAKs")
	add(c.RNR, "%d repeated after RNR NAKs")
	add(c.Read, "%d for the rest of a READ")
	add(c.Timeout, "%d repeated after a timeout")
	add(p.Copies, "%d copied by the network")
	if p.Lives > 1 {
		add(p.Lives, "%d lives")
	}
	for code, n := range f.NAKs {
		add(n, "%d NAK %s", nakNames[code])
	}
	add(f.Fast, "%d Fast CNP")
	add(f.PPFC, "%d PPFC")
	add(f.FCN, "%d FCN")
	if f.Proxy > 0 {
		all = append(all, cli.Count(f.Proxy, "proxy message"))
	}
	add(f.ICRCWrong, "%d wrong ICRC")
	if f.Queue.Known && f.Queue.Depth > 0 {
		all = append(all, fmt.Sprintf("deepest queue %d at node %d", f.Queue.Depth, f.Queue.Node))
	}
	return all
}

// counted says what was counted.
func counted(a *flows.Answers) (all []string) {
	add := func(n uint64, what string) {
		if n > 0 {
			all = append(all, fmt.Sprint(n, " ", what))
		}
	}
	add(a.ACKs, "ACK")
	for code, n := range a.NAKs {
		add(n, "NAK "+nakNames[code])
	}
	add(a.RNRNAKs, "RNR NAK")
	add(a.CNPs, "CNP")
	add(a.Fast, "Fast CNP")
	add(a.PPFC, "PPFC")
	add(a.FCN, "FCN")
	if a.Proxy > 0 {
		all = append(all, cli.Count(a.Proxy, "proxy message"))
	}
	return all
}

// wrap joins words with commas into lines of this width.
func wrap(words []string, width int) (lines []string) {
	for _, word := range words {
		last := len(lines) - 1
		if last >= 0 && len(lines[last])+2+len(word) <= width {
			lines[last] += ", " + word
			continue
		}
		if last >= 0 {
			lines[last] += ","
		}
		lines = append(lines, word)
	}
	return slices.Clip(lines)
}
