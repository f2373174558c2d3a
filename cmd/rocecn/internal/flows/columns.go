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
	{"PACKETS", "Packets", "requests, repeats included", true, func(f *flows.Flow) cell {
		return countCell(f.Packets, "")
	}},
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
		return psnCell(f, f.PSN.StayedMissing(), colour)
	}},
	{"", "Lost", "missing, and no answer covers them", true, func(f *flows.Flow) cell {
		return psnCell(f, f.PSN.Lost, red)
	}},
	{"REORDER", "Out of order", "requests that came after later ones, and had not been seen", true,
		func(f *flows.Flow) cell { return psnCell(f, f.PSN.Late, yellow) }},
	{"REPEATS", "Repeats", "requests that were sent again", true, func(f *flows.Flow) cell {
		return psnCell(f, f.PSN.Repeats, red)
	}},
	{"", "Copies", "requests that a network copied", true, func(f *flows.Flow) cell {
		return psnCell(f, f.PSN.Copies, "")
	}},
	{"CE", "CE", "requests with Congestion Experienced", true, func(f *flows.Flow) cell {
		n := f.ECN[rocev2.CE]
		if n == 0 {
			return cell{Text: "0"}
		}
		return cell{Text: fmt.Sprintf("%.1f%%", 100*float64(n)/float64(max(f.Packets, 1))), colour: yellow}
	}},
	{"CNP", "CNP", "CNPs of receivers, and Fast CNPs", true, func(f *flows.Flow) cell {
		return countCell(f.CNPs+f.Fast, yellow)
	}},
	{"NAK", "NAK", "NAKs of all kinds", true, func(f *flows.Flow) cell { return countCell(sum(f.NAKs[:]), red) }},
	{"RNR", "RNR", "RNR NAKs", true, func(f *flows.Flow) cell { return countCell(f.RNRNAKs, red) }},
	{"RTT P99", "RTT p99", "99th percentile of the round trip time", true, func(f *flows.Flow) cell {
		if f.RTT.Samples() == 0 {
			return cell{Text: none}
		}
		d := f.RTT.Percentile(0.99)
		return cell{Text: short(d), Sort: strconv.FormatInt(int64(d), 10)}
	}},
}

// countCell is a cell with a count, which has a colour unless it is 0.
func countCell(n uint64, colour string) cell {
	if n == 0 {
		colour = ""
	}
	return cell{Text: strconv.FormatUint(n, 10), short: scaled(float64(n)), colour: colour}
}

// psnCell is countCell for flows whose PSNs are checked.
func psnCell(f *flows.Flow, n uint64, colour string) cell {
	if !f.Sequenced {
		return cell{Text: none}
	}
	return countCell(n, colour)
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
