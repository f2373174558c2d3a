package flows

import (
	"cmp"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/rocecn/rocecn/flows"
)

// A column is one of the tables for people, in a terminal and on a page.
type column struct {
	short      string // heading in a terminal; empty: it has no such column
	Name, Help string // heading on a page
	kind       string // on a page: text, qp, count, rate, share or time, in nanoseconds
	of         func(f *flows.Flow) cell
}

// cell is the contents of a column.
type cell struct {
	Text   string
	short  string // in a terminal; empty: the text
	value  any    // on a page: a number, a text, or nil where there is none
	colour string // an escape sequence; empty: none
}

// inTerminal returns the text for a terminal.
func (c cell) inTerminal() string { return cmp.Or(c.short, c.Text) }

// width returns how wide that is.
func (c cell) width() int { return utf8.RuneCountInString(c.inTerminal()) }

// none stands where there is nothing to say.
const none = "–"

// flowColumns are the columns after that with the addresses.
var flowColumns = []column{
	{"QP", "QP", "source queue pair", "qp", func(f *flows.Flow) cell {
		c := cell{Text: sourceQP(f), short: sourceQP(f) + " > " + queuePair(f.DestQP)}
		if f.SrcQPFrom != 0 {
			c.value = f.SrcQP
		}
		return c
	}},
	{"", "to QP", "destination queue pair", "qp", func(f *flows.Flow) cell {
		return cell{Text: queuePair(f.DestQP), value: f.DestQP}
	}},
	{"", "Port", "UDP source port of the last request, which ECMP uses", "number",
		func(f *flows.Flow) cell { return cell{Text: fmt.Sprint(f.SrcPort), value: f.SrcPort} }},
	{"TR", "Transport", "transport service", "text", func(f *flows.Flow) cell {
		return cell{Text: f.Transport.String(), value: f.Transport.String()}
	}},
	{"PACKETS", "Packets", "requests and responses, including retransmissions", "count",
		countColumn("data.packets", "")},
	{"BIT/S", "bit/s", "mean rate of IP packets", "rate", func(f *flows.Flow) cell {
		if f.Data.Mean <= 0 {
			return cell{Text: none}
		}
		return cell{Text: formatScaled(f.Data.Mean), value: math.Round(f.Data.Mean)}
	}},
	{"MISSING", "Missing", "requests and responses that never arrived", "count", func(f *flows.Flow) cell {
		colour := yellow // by the capture
		if f.PSN.Lost+f.PSN.Unjudged+f.Responses.PSN.NeverSeen() > 0 {
			colour = red
		}
		return countCell(float64(f.PSN.NeverSeen()+f.Responses.PSN.NeverSeen()), f.Sequenced, colour)
	}},
	{"", "Lost", "missing, and no answer covers them", "count", countColumn("psn.lost", red)},
	{"REORDER", "Reorder", "packets that arrived after later ones, for the first time", "count",
		countColumn("late", yellow)},
	{"RETRANS", "Retransmissions", "retransmitted requests and responses", "count", countColumn("repeats", red)},
	{"", "Copies", "packets copied by the network", "count", countColumn("copies", "")},
	{"CE", "CE", "packets with Congestion Experienced", "share", func(f *flows.Flow) cell {
		n := f.Data.CE
		if n == 0 {
			return cell{Text: "0", value: 0}
		}
		share := 100 * float64(n) / float64(max(f.Data.Packets, 1))
		return cell{Text: fmt.Sprintf("%.1f%%", share), value: math.Round(1000*share) / 1000, colour: yellow}
	}},
	{"CNP", "CNP", "CNPs of receivers, and Fast CNPs", "count", countColumn("cnps", yellow)},
	{"NAK", "NAK", "NAKs of all kinds", "count", countColumn("naks", red)},
	{"RNR", "RNR", "RNR NAKs", "count", countColumn("rnr_naks", red)},
	{"RTT P99", "RTT p99", "99th percentile of the round trip time", "time", func(f *flows.Flow) cell {
		if f.RTT.Count() == 0 {
			return cell{Text: none}
		}
		d := f.RTT.Percentile(0.99)
		return cell{Text: formatDuration(d), value: int64(d)}
	}},
}

// countColumn returns the cells of a metric that is a count.
func countColumn(name, colour string) func(f *flows.Flow) cell {
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
	return cell{Text: fmt.Sprintf("%.0f", n), short: formatScaled(n), value: n, colour: colour}
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
