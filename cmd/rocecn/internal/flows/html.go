package flows

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
)

// maxCharts is how many flows have charts on a page, the first of its table:
// a page of 10,000 flows is to stay below 5 MB.
const maxCharts = 50

// shownRows is how many rows are shown until all are asked for.
const shownRows = 500

//go:embed page.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// A page is what -html writes.
type page struct {
	Files    []string
	From     string // the first request
	Span     string // from there to the last packet of a flow
	Packets  uint64 // of the capture
	Flows    int    // all that are chosen, of which -top leaves the first in Rows
	Trouble  int    // of these, those with any
	Columns  []column
	Rows     []row
	Shown    int // rows, until all are asked for
	Charts   []chart
	Unpaired []string
	Links    []string
	Evicted  uint64 // flows
}

// A column is a heading of the table.
type column struct {
	Name, Help string
	Numeric    bool
}

var pageColumns = []column{
	{"Flow", "source and destination", false},
	{"QP", "source queue pair", true},
	{"to QP", "destination queue pair", true},
	{"Transport", "transport service", false},
	{"Packets", "requests, repeats included", true},
	{"bit/s", "mean rate of IP packets", true},
	{"Missing", "PSNs that were passed over and never came", true},
	{"Lost", "missing, and no answer covers them", true},
	{"Out of order", "requests that came after later ones, and had not been seen", true},
	{"Repeats", "requests that were sent again", true},
	{"Copies", "requests that a network copied", true},
	{"CE", "requests with Congestion Experienced", true},
	{"CNP", "CNPs of receivers, and Fast CNPs", true},
	{"NAK", "NAKs of all kinds", true},
	{"RNR", "RNR NAKs", true},
	{"RTT p99", "99th percentile of the round trip time", true},
}

// A row is a flow in the table.
type row struct {
	Chart  int // number of its charts; 0 without
	Name   string
	Cells  []pageCell
	Hidden bool // until all are asked for
}

// A pageCell is a cell of the table.
type pageCell struct {
	Text string
	Sort string // the number to sort by; empty: that of the text
	Bad  bool
}

// What -html may not name.
var (
	errInput   = errors.New("the capture that is read cannot be written")
	errCapture = errors.New("this is a capture: the page needs a name of its own")
)

// checkPage says what is wrong with the name of the page: no capture is
// overwritten, neither one that is read nor another one.
func (o *options) checkPage() error {
	if o.html == "" {
		return nil
	}
	for _, name := range o.inputs.Names {
		if cli.Same(name, o.inputs.Stdin, o.html) {
			return errInput
		}
	}
	if info, err := os.Stat(o.html); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(o.html)
	if err != nil {
		return nil // createPage says it
	}
	defer f.Close()
	if _, err := capture.Open(f); err == nil {
		return errCapture
	}
	return nil
}

// createPage begins the file that -html names, so that a name that cannot be
// written to is found out before the capture is read.
func (o *options) createPage() (*cli.Replacement, error) {
	if o.html == "" {
		return nil, nil
	}
	o.table.Series = true
	return cli.Replace(o.html)
}

// writePage writes the page of a snapshot, in the order of the flows.
func (a *accountant) writePage(s *flows.Snapshot) error {
	out := bufio.NewWriterSize(a.page, 64<<10)
	err := pageTemplate.Execute(out, a.pageOf(s))
	if e := out.Flush(); err == nil {
		err = e
	}
	if err == nil {
		err = a.page.Commit()
	}
	if err != nil {
		return fmt.Errorf("-html: %w", err)
	}
	return nil
}

func (a *accountant) pageOf(s *flows.Snapshot) *page {
	p := &page{Columns: pageColumns, Flows: len(s.Flows), Packets: s.Stats.Packets, Shown: shownRows,
		Evicted: s.Evicted.Flows}
	for _, name := range a.inputs.Names {
		p.Files = append(p.Files, cli.Printable(filepath.Base(name)))
	}
	var first, last time.Time
	for i := range s.Flows {
		f := &s.Flows[i]
		if first.IsZero() || f.First.Before(first) {
			first = f.First
		}
		if f.Last.After(last) {
			last = f.Last
		}
		if f.Trouble() > 0 {
			p.Trouble++
		}
		if a.top > 0 && i >= a.top {
			continue
		}
		r := rowOf(f)
		r.Hidden = i >= shownRows
		if len(p.Charts) < maxCharts {
			if series := a.table.Series(f.FlowKey); series != nil {
				r.Chart = len(p.Charts) + 1
				p.Charts = append(p.Charts, chartOf(r.Chart, f, series))
			}
		}
		p.Rows = append(p.Rows, r)
	}
	if !first.IsZero() {
		p.From, p.Span = stamp(first), short(last.Sub(first))
	}
	for i := range s.Unpaired {
		u := &s.Unpaired[i]
		to := ""
		if u.WithQP {
			to = ", to QP " + queuePair(u.DestQP)
		}
		p.Unpaired = append(p.Unpaired, fmt.Sprintf("%v → %v%s: %s", u.Src, u.Dst, to,
			strings.Join(counted(&u.Answers), ", ")))
	}
	for i := range s.Links {
		l := &s.Links[i]
		for _, text := range said(l) {
			p.Links = append(p.Links, linkName(l)+", "+text)
		}
	}
	return p
}

// rowOf returns the row of a flow.
func rowOf(f *flows.Flow) row {
	number := func(n uint64, bad bool) pageCell {
		return pageCell{Text: strconv.FormatUint(n, 10), Bad: bad && n > 0}
	}
	psn := func(n uint64, bad bool) pageCell {
		if !f.Sequenced {
			return pageCell{Text: none}
		}
		return number(n, bad)
	}
	rate, rtt, ce := pageCell{Text: none}, pageCell{Text: none}, pageCell{Text: "0"}
	if f.Mean > 0 {
		rate.Text = scaled(f.Mean)
	}
	if f.RTT != nil && f.RTT.Samples() > 0 {
		d := f.RTT.Percentile(0.99)
		rtt = pageCell{Text: short(d), Sort: strconv.FormatInt(int64(d), 10)}
	}
	if n := f.ECN[3]; n > 0 {
		ce.Text = fmt.Sprintf("%.1f%%", 100*float64(n)/float64(max(f.Packets, 1)))
	}
	return row{Name: arrow(f), Cells: []pageCell{
		{Text: sourceQP(f)}, {Text: queuePair(f.DestQP)}, {Text: f.Transport.String()}, number(f.Packets, false), rate,
		psn(f.PSN.StayedMissing(), f.PSN.Lost+f.PSN.Unjudged > 0), psn(f.PSN.Lost, true), psn(f.PSN.Late, false),
		psn(f.PSN.Repeats, true), psn(f.PSN.Copies, false),
		ce, number(f.CNPs+f.Fast, false), number(sum(f.NAKs[:]), true), number(f.RNRNAKs, true), rtt,
	}}
}

func arrow(f *flows.Flow) string { return f.Src.String() + " → " + f.Dst.String() }
