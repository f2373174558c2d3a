package flows

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
)

// pageData is the data for the script of a page. Times are nanoseconds since Start.
type pageData struct {
	Start     string       `json:"start"`
	Span      int64        `json:"span"`
	Columns   []pageColumn `json:"columns"`
	Addresses []netip.Addr `json:"addresses"` // that rows number
	Rows      []pageRow    `json:"rows"`
	Totals    *pageSeries  `json:"totals,omitempty"`
	Pauses    []pageLane   `json:"pauses,omitempty"`
	Charts    []pageChart  `json:"charts,omitempty"`
}

type pageColumn struct {
	Name string `json:"name"`
	Help string `json:"help"`
	Kind string `json:"kind"` // as column.kind
}

// A pageRow is a flow in the table: source, destination, time of the first request and
// of the last packet, for each column n, r (red), y (yellow), and then the cells.
type pageRow []any

// A pageChart is how a flow went over time.
type pageChart struct {
	Row     int    `json:"row"`
	Remarks string `json:"remarks"`
	pageSeries
	Marks []pageMark `json:"marks,omitempty"`
	More  uint64     `json:"more,omitempty"`
	Nodes []pageNode `json:"nodes,omitempty"`
}

// A pageSeries is the bins of a flow, or of all together. Series with only zeros and zeros at the end are omitted.
type pageSeries struct {
	From   int64      `json:"from"`
	Widths [][2]int64 `json:"widths"` // so wide are so many bins, one after another
	Octets []uint64   `json:"octets,omitempty"`
	CE     []uint32   `json:"ce,omitempty"`
	CNPs   []uint32   `json:"cnps,omitempty"`
	Miss   []uint32   `json:"missing,omitempty"`
	Late   []uint32   `json:"late,omitempty"`
	Repeat []uint32   `json:"repeats,omitempty"`
	NAKs   []uint32   `json:"naks,omitempty"`
	RNRs   []uint32   `json:"rnrs,omitempty"`
	PPFC   []uint32   `json:"ppfc,omitempty"`
	RTT    []uint32   `json:"rtt,omitempty"` // nanoseconds: the longest
	PSN    []*int64   `json:"psn,omitempty"` // distances of the first and last requests of bins from the first PSN
}

// A pageMark is a mark: kind, time, frame, first and last PSN, and text.
type pageMark []any

// A pageNode is the depth of a node's queue.
type pageNode struct {
	Node  uint64    `json:"node"`
	Width int64     `json:"width"`
	Depth []*uint32 `json:"depth"` // null where it is not known
}

// A pageLane is the pauses of one priority of a link. Each has begin, end, paused time, number of frames and first
// frame.
type pageLane struct {
	Name   string     `json:"name"`
	Pauses [][5]int64 `json:"pauses"`
	paused time.Duration
}

func (a *accountant) pageData(s *flows.Snapshot) *pageData {
	d := &pageData{Addresses: []netip.Addr{}, Rows: []pageRow{}}
	for _, c := range flowColumns {
		d.Columns = append(d.Columns, pageColumn{c.Name, c.Help, c.kind})
	}
	shown := s.Flows
	if a.top > 0 {
		shown = shown[:min(len(shown), a.top)]
	}
	start, end := bounds(s)
	totals, pauses := a.table.Totals(), a.table.Pauses()
	if totals != nil {
		start, end = earlierTime(start, totals.Start), laterTime(end, totals.End)
	}
	for _, p := range pauses {
		start, end = earlierTime(start, p.From), laterTime(end, p.To)
	}
	d.Start, d.Span = formatTime(start), int64(end.Sub(start))
	numbers := map[netip.Addr]int{}
	number := func(a netip.Addr) int {
		n, ok := numbers[a]
		if !ok {
			n = len(numbers)
			numbers[a], d.Addresses = n, append(d.Addresses, a)
		}
		return n
	}
	for i := range shown {
		f := &shown[i]
		d.Rows = append(d.Rows, pageRowOf(f, number(f.Src), number(f.Dst), start))
	}
	for _, row := range a.chartedRows(shown) {
		f := &shown[row]
		if series := a.table.Series(f.FlowKey); series != nil {
			d.Charts = append(d.Charts, chartOf(row, f, series, start))
		}
	}
	if totals != nil {
		all := packSeries(totals, start)
		d.Totals = &all
	}
	d.Pauses = pauseLanes(pauses, start)
	return d
}

// chartedRows returns the rows that have charts, in their order: of each of the first
// verdicts the first flow that is there, and the first rows.
func (a *accountant) chartedRows(shown []flows.Flow) (rows []int) {
	byKey := map[rocev2.FlowKey]int{}
	for i := range shown {
		byKey[shown[i].FlowKey] = i
	}
	chosen := map[int]bool{}
	for i := range a.verdicts {
		if row, ok := firstRow(byKey, a.verdicts[i].Flows); ok && len(chosen) < maxCharts/2 {
			chosen[row] = true
		}
	}
	for i := 0; i < len(shown) && len(chosen) < maxCharts; i++ {
		chosen[i] = true
	}
	return slices.Sorted(maps.Keys(chosen))
}

// firstRow returns the first row of some flows, if any of them is there.
func firstRow(rows map[rocev2.FlowKey]int, keys []rocev2.FlowKey) (first int, ok bool) {
	for _, k := range keys {
		if row, there := rows[k]; there && (!ok || row < first) {
			first, ok = row, true
		}
	}
	return first, ok
}

func earlierTime(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func laterTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func pageRowOf(f *flows.Flow, src, dst int, start time.Time) pageRow {
	row := pageRow{src, dst, int64(f.First.Sub(start)), int64(f.Last.Sub(start)), ""}
	var colours strings.Builder
	for _, column := range flowColumns {
		c := column.of(f)
		switch c.colour {
		case red:
			colours.WriteByte('r')
		case yellow:
			colours.WriteByte('y')
		default:
			colours.WriteByte('n')
		}
		row = append(row, c.value)
	}
	row[4] = colours.String()
	return row
}

func chartOf(row int, f *flows.Flow, s *flows.Series, start time.Time) pageChart {
	c := pageChart{Row: row, Remarks: strings.Join(formatRemarks(f), ", "), pageSeries: packSeries(s, start),
		More: s.DroppedMarks}
	if f.Sequenced {
		c.PSN = packPSNs(s)
	}
	for i := range s.Marks {
		m := &s.Marks[i]
		c.Marks = append(c.Marks, pageMark{m.Kind.String(), int64(m.Time.Sub(start)), m.Frame, m.Line,
			m.Line + int64(max(m.Count, 1)) - 1, markText(m)})
	}
	for _, n := range s.Nodes {
		node := pageNode{Node: n.Node, Width: int64(n.Width)}
		for i := range n.Depth {
			var depth *uint32
			if n.Known[i] {
				depth = &n.Depth[i]
			}
			node.Depth = append(node.Depth, depth)
		}
		c.Nodes = append(c.Nodes, node)
	}
	return c
}

func packSeries(s *flows.Series, start time.Time) pageSeries {
	p := pageSeries{From: int64(s.Start.Sub(start))}
	for i := range s.Bins {
		width := int64(s.Bins[i].To - s.Bins[i].From)
		if last := len(p.Widths) - 1; last >= 0 && p.Widths[last][0] == width {
			p.Widths[last][1]++
		} else {
			p.Widths = append(p.Widths, [2]int64{width, 1})
		}
	}
	p.Octets = trimZeros(s.Bins, func(b *flows.Bin) uint64 { return b.IPOctets })
	for _, of := range []struct {
		to *[]uint32
		n  func(b *flows.Bin) uint32
	}{
		{&p.CE, func(b *flows.Bin) uint32 { return b.CE }}, {&p.CNPs, func(b *flows.Bin) uint32 { return b.CNPs }},
		{&p.Miss, func(b *flows.Bin) uint32 { return b.Missing }},
		{&p.Late, func(b *flows.Bin) uint32 { return b.Late }},
		{&p.Repeat, func(b *flows.Bin) uint32 { return b.Retransmitted }},
		{&p.NAKs, func(b *flows.Bin) uint32 { return b.NAKs }},
		{&p.RNRs, func(b *flows.Bin) uint32 { return b.RNRNAKs }},
		{&p.PPFC, func(b *flows.Bin) uint32 { return b.PPFC }},
		{&p.RTT, func(b *flows.Bin) uint32 { return b.RTT }},
	} {
		*of.to = trimZeros(s.Bins, of.n)
	}
	return p
}

// trimZeros returns a number of each bin, without zeros at the end.
func trimZeros[T uint32 | uint64](bins []flows.Bin, of func(b *flows.Bin) T) (all []T) {
	for i := range bins {
		if n := of(&bins[i]); n > 0 {
			all = append(append(all, make([]T, i-len(all))...), n)
		}
	}
	return all
}

func packPSNs(s *flows.Series) (all []*int64) {
	for i := range s.Bins {
		if b := &s.Bins[i]; b.Sequenced {
			all = append(all, &b.First, &b.Last)
		} else {
			all = append(all, nil, nil)
		}
	}
	return all
}

// maxPauseLanes is the number of priorities of links that are drawn, those with the longest pauses. The page counts the
// others.
const maxPauseLanes = 16

func pauseLanes(pauses []flows.Pause, start time.Time) (lanes []pageLane) {
	for _, p := range pauses {
		priority := priorityName(fmt.Sprint(p.Priority))
		if p.Priority == flows.AllPriorities {
			priority = priorityName("all")
		}
		name := p.Src.String() + ", " + priority
		if last := len(lanes) - 1; last < 0 || lanes[last].Name != name {
			lanes = append(lanes, pageLane{Name: name})
		}
		l := &lanes[len(lanes)-1]
		l.Pauses = append(l.Pauses, [5]int64{int64(p.From.Sub(start)), int64(p.To.Sub(start)), int64(p.Paused),
			int64(p.XOFF), int64(p.Frame)})
		l.paused += p.Paused
	}
	slices.SortStableFunc(lanes, func(a, b pageLane) int { return cmp.Compare(b.paused, a.paused) })
	return lanes[:min(len(lanes), maxPauseLanes)]
}

var causeNames = [...]string{
	flows.CauseTimeout: "a timeout", flows.CauseSequenceNAK: "a NAK", flows.CauseRNR: "an RNR NAK",
	flows.CauseReadRest: "a READ of which a part is missing",
}

// markText describes a mark in words.
func markText(m *flows.Mark) string {
	switch m.Kind {
	case flows.MarkGap:
		return fmt.Sprintf("gap, %d missing from PSN %d on", m.Count, m.PSN)
	case flows.MarkLate:
		return fmt.Sprintf("PSN %d comes out of order", m.PSN)
	case flows.MarkRetransmission:
		return fmt.Sprintf("%d retransmitted from PSN %d on, after %s", m.Count, m.PSN, causeNames[m.Cause])
	case flows.MarkConnection:
		return fmt.Sprintf("a new connection begins with PSN %d", m.PSN)
	case flows.MarkNAK:
		name := "of a reserved code"
		if int(m.NAK) < len(nakNames) {
			name = nakNames[m.NAK]
		}
		return fmt.Sprintf("NAK %s for PSN %d", name, m.PSN)
	case flows.MarkRNR:
		return fmt.Sprintf("RNR NAK for PSN %d: the receiver is not ready", m.PSN)
	}
	return noticeTexts[m.Kind]
}

var noticeTexts = map[flows.MarkKind]string{
	flows.MarkCNP: "CNP of the receiver", flows.MarkFastCNP: "Fast CNP", flows.MarkPPFC: "PPFC notification",
	flows.MarkFCN: "FCN, for the ingress PE", flows.MarkProxy: "message for a proxy",
}
