package flows

import (
	"bufio"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
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

// A row is a flow in the table.
type row struct {
	Chart  int // number of its charts; 0 without
	Name   string
	Cells  []cell
	Hidden bool // until all are asked for
}

// checkPage says what is wrong with the name of the page: no capture is
// overwritten, neither one that is read nor another one.
func (o *options) checkPage() error {
	if o.html == "" {
		return nil
	}
	for _, name := range o.inputs.Names {
		if cli.Same(name, o.inputs.Stdin, o.html) {
			return errors.New("the capture that is read cannot be written")
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
		return errors.New("this is a capture: the page needs a name of its own")
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
	err := cmp.Or(pageTemplate.Execute(out, a.pageOf(s)), out.Flush())
	if err == nil {
		err = a.page.Commit()
	}
	if err != nil {
		return fmt.Errorf("-html: %w", err)
	}
	return nil
}

func (a *accountant) pageOf(s *flows.Snapshot) *page {
	p := &page{Columns: flowColumns, Flows: len(s.Flows), Packets: s.Stats.Packets, Shown: shownRows,
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
		r := row{Name: arrow(f), Hidden: i >= shownRows}
		for _, c := range flowColumns {
			r.Cells = append(r.Cells, c.of(f))
		}
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
			strings.Join(answered(&u.Answers), ", ")))
	}
	for i := range s.Links {
		l := &s.Links[i]
		for _, text := range said(l) {
			p.Links = append(p.Links, linkName(l)+", "+text)
		}
	}
	return p
}

func arrow(f *flows.Flow) string { return f.Src.String() + " → " + f.Dst.String() }
