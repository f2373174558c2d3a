package flows

import (
	"cmp"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
)

// A column is one of the tables for people, in a terminal and on a page.
type column struct {
	short      string // heading in a terminal; empty: it has no such column
	Name, Help string // heading on a page
	Numeric    bool
	of         func(f *flows.Flow) cell
}

// cell is what stands in a column.
type cell struct {
	Text   string
	Sort   string // the number to sort by on a page; empty: that of the text
	short  string // in a terminal; empty: the text
	colour string // an escape sequence; empty: none
}

// inTerminal returns what stands in a terminal.
func (c cell) inTerminal() string { return cmp.Or(c.short, c.Text) }

// width returns how wide that is.
func (c cell) width() int { return utf8.RuneCountInString(c.inTerminal()) }

// Bad says that a cell stands out on a page, too.
func (c cell) Bad() bool { return c.colour == red }

// none stands where there is nothing to say.
const none = "–"

// flowColumns are the columns behind that with the addresses.
var flowColumns = []column{
	{"QP", "QP", "source queue pair", true, func(f *flows.Flow) cell {
		return cell{Text: sourceQP(f), short: sourceQP(f) + " > " + queuePair(f.DestQP)}
	}},
	{"", "to QP", "destination queue pair", true, func(f *flows.Flow) cell { return cell{Text: queuePair(f.DestQP)} }},
	{"TR", "Transport", "transport service", false, func(f *flows.Flow) cell {
		return cell{Text: f.Transport.String()}
	}},
	{"PACKETS", "Packets", "requests, repeats included", true, counted("packets", "")},
	{"BIT/S", "bit/s", "mean rate of IP packets", true, func(f *flows.Flow) cell {
		if f.Mean <= 0 {
			return cell{Text: none}
		}
		return cell{Text: scaled(f.Mean)}
	}},
	{"MISSING", "Missing", "PSNs that were passed over and never came", true, func(f *flows.Flow) cell {
		colour := yellow // by the capture
		if f.PSN.Lost+f.PSN.Unjudged > 0 {
			colour = red
		}
		return countCell(float64(f.PSN.StayedMissing()), f.Sequenced, colour)
	}},
	{"", "Lost", "missing, and no answer covers them", true, counted("psn.lost", red)},
	{"REORDER", "Out of order", "requests that came after later ones, and had not been seen", true,
		counted("psn.late", yellow)},
	{"REPEATS", "Repeats", "requests that were sent again", true, counted("psn.repeats", red)},
	{"", "Copies", "requests that a network copied", true, counted("psn.copies", "")},
	{"CE", "CE", "requests with Congestion Experienced", true, func(f *flows.Flow) cell {
		n := f.ECN[rocev2.CE]
		if n == 0 {
			return cell{Text: "0"}
		}
		return cell{Text: fmt.Sprintf("%.1f%%", 100*float64(n)/float64(max(f.Packets, 1))), colour: yellow}
	}},
	{"CNP", "CNP", "CNPs of receivers, and Fast CNPs", true, counted("cnps", yellow)},
	{"NAK", "NAK", "NAKs of all kinds", true, counted("naks", red)},
	{"RNR", "RNR", "RNR NAKs", true, counted("rnr_naks", red)},
	{"RTT P99", "RTT p99", "99th percentile of the round trip time", true, func(f *flows.Flow) cell {
		if f.RTT.Samples() == 0 {
			return cell{Text: none}
		}
		d := f.RTT.Percentile(0.99)
		return cell{Text: short(d), Sort: strconv.FormatInt(int64(d), 10)}
	}},
}

// counted returns the cells of a metric that is a count.
func counted(name, colour string) func(f *flows.Flow) cell {
	m := mustMetric(name)
	return func(f *flows.Flow) cell {
		n, ok := m.of(f)
		return countCell(n, ok, colour)
	}
}

// countCell is a cell with a count, if there is one, which has a colour unless it
// is 0.
func countCell(n float64, ok bool, colour string) cell {
	switch {
	case !ok:
		return cell{Text: none}
	case n == 0:
		colour = ""
	}
	return cell{Text: fmt.Sprintf("%.0f", n), short: scaled(n), colour: colour}
}

// queuePair writes a queue pair as inspect and pairs do.
func queuePair(qp uint32) string { return fmt.Sprintf("0x%06x", qp) }

// sourceQP writes the source queue pair of a flow, as far as it is known.
func sourceQP(f *flows.Flow) string {
	if f.SrcQPFrom == 0 {
		return "?"
	}
	return queuePair(f.SrcQP)
}
