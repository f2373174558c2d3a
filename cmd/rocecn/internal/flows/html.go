package flows

import (
	"bufio"
	"cmp"
	"embed"
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
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/internal/webpage"
	"github.com/rocecn/rocecn/rocev2"
)

// maxCharts is the number of flows with charts on a page, the first of its table: a page of 10,000 flows has to stay
// below 5 MB.
const maxCharts = 50

// liveRows is the default number of flows on the page of -listen: no packets are counted while it is made.
const liveRows = 500

//go:embed page/page.tmpl
var pageText string

//go:embed page/page.css
var pageStyle string

// The script is in several files, each about one thing, which see each other's names.
//
//go:embed page/*.js
var pageScripts embed.FS

var pageTemplate = webpage.New(pageText)

// A page is the contents of a page of -html.
type page struct {
	Style  template.CSS
	Script template.JS
	Data   *pageData // data for the script

	Files     []string
	From      string // the first request
	Span      string // from there to the last packet of a flow
	Packets   uint64 // of the capture
	Flows     int    // all that are chosen, of which -top leaves the first in the table
	Rows      int
	Partly    bool // the table has not all flows of the capture, of which the totals are
	Trouble   int  // of Flows, those with any
	Level     level
	Headline  string
	Under     string        // evidence for the headline
	Capture   []string      // sentences about the capture itself
	Verdicts  []pageVerdict // the first ones
	Further   []pageVerdict
	Hosts     []pageHost
	Questions []pageQuestion
	Unpaired  []string
	Links     []string
	Evicted   uint64 // flows
}

// A pageVerdict is a verdict with its evidence.
type pageVerdict struct {
	*triage.Verdict
	Level level
	Blame string // party or suspects
	Row   *int   // of the first flow that it is about, if it is in the table
}

// shownVerdicts is the number of verdicts that are visible initially, so that the answers to the six questions fit on
// the first screen.
const shownVerdicts = 2

// A pageHost has the counters of a host, and the findings from them.
type pageHost struct {
	Name  string
	Says  []string
	Grown string
}

// A pageQuestion is a question, and which row of the table the answer is about.
type pageQuestion struct {
	question
	Row *int
}

// checkPage checks the name of the page: the page does not replace a capture, whether that is an input or not.
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

// readScript returns the script of the page.
func readScript() template.JS {
	var all strings.Builder
	for _, name := range []string{"format", "series", "view", "lanes", "kinds", "table", "main"} {
		text, err := pageScripts.ReadFile("page/" + name + ".js")
		if err != nil {
			panic(err) // it is embedded
		}
		all.Write(text)
	}
	return template.JS(all.String())
}

func (a *accountant) pageOf(s *flows.Snapshot) *page {
	p := &page{Style: template.CSS(pageStyle), Script: readScript(), Flows: len(s.Flows), Packets: s.Stats.Packets,
		Evicted: s.Evicted.Flows, Capture: describeCapture(&s.Capture)}
	for _, name := range a.inputs.Names {
		p.Files = append(p.Files, cli.Printable(filepath.Base(name)))
	}
	for i := range s.Flows {
		if s.Flows[i].Trouble() > 0 {
			p.Trouble++
		}
	}
	p.Data = a.pageData(s)
	p.Rows = len(p.Data.Rows)
	p.Partly = a.choice.isPartial() || p.Rows < p.Flows
	if first, last := bounds(s); !first.IsZero() {
		p.From, p.Span = formatTime(first), formatDuration(last.Sub(first))
	}
	rows := map[rocev2.FlowKey]int{}
	for i := range p.Rows {
		rows[s.Flows[i].FlowKey] = i
	}
	p.Level, p.Headline, p.Under = headline(s, p.Trouble, len(a.verdicts))
	all := a.onPage(rows)
	p.Verdicts, p.Further = all[:min(len(all), shownVerdicts)], all[min(len(all), shownVerdicts):]
	for _, q := range answerQuestions(s, a.verdicts, a.table.Series, p.Files) {
		on := pageQuestion{question: q}
		if q.Flow != nil {
			on.Row = rowOrNil(rows, q.Flow.FlowKey)
		}
		p.Questions = append(p.Questions, on)
	}
	for i := range a.joined {
		p.Hosts = append(p.Hosts, a.joined[i].onPage())
	}
	for i := range s.Unpaired {
		u := &s.Unpaired[i]
		to := ""
		if u.WithQP {
			to = ", to QP " + queuePair(u.DestQP)
		}
		p.Unpaired = append(p.Unpaired, fmt.Sprintf("%v → %v%s: %s", u.Src, u.Dst, to,
			strings.Join(formatAnswers(&u.Answers), ", ")))
	}
	for i := range s.Links {
		l := &s.Links[i]
		for _, text := range formatPauses(l) {
			p.Links = append(p.Links, linkName(l)+", "+text)
		}
	}
	return p
}

// onPage returns the verdicts for a page.
func (a *accountant) onPage(rows map[rocev2.FlowKey]int) (all []pageVerdict) {
	for i := range a.verdicts {
		v := pageVerdict{Verdict: &a.verdicts[i], Level: bad, Blame: formatSuspects(&a.verdicts[i])}
		if v.Cause.IsSymptom() {
			v.Level = notable
		}
		v.Row = rowOrNil(rows, v.Flows...)
		all = append(all, v)
	}
	return all
}

// rowOrNil returns the first row of some flows, nil if none of them is there.
func rowOrNil(rows map[rocev2.FlowKey]int, keys ...rocev2.FlowKey) *int {
	if row, ok := firstRow(rows, keys); ok {
		return &row
	}
	return nil
}

// headline returns a sentence with the worst findings of the capture and, if there is no verdict, its evidence.
func headline(s *flows.Snapshot, trouble, verdicts int) (l level, sentence, under string) {
	all := cli.Count(len(s.Flows), "flow")
	verb := "have"
	if trouble == 1 {
		verb = "has"
	}
	some := fmt.Sprintf("%d of %s %s something to look into", trouble, all, verb)
	switch {
	case trouble > 0 && verdicts > 0:
		return bad, cli.Count(verdicts, "finding") + "; " + some, ""
	case trouble > 0:
		f := worstFlow(s, func(f *flows.Flow) float64 { return float64(f.Trouble()) })
		return bad, some, "most of it " + flowName(f) + ": " + strings.Join(formatRemarks(f), ", ")
	case verdicts > 0:
		return notable, cli.Count(verdicts, "finding") + "; no flow is in trouble", ""
	case len(s.Flows) == 0:
		return unknown, "No flow of RoCEv2 here", "no request is in the capture, or none is chosen"
	}
	return good, "Nothing is in trouble",
		all + ": no packet is missing or retransmitted; no CE, NAK or notification"
}

// bounds returns when the first request and the last packet of a flow came.
func bounds(s *flows.Snapshot) (first, last time.Time) {
	for i := range s.Flows {
		first, last = earlierTime(first, s.Flows[i].First), laterTime(last, s.Flows[i].Last)
	}
	return first, last
}

// onPage returns the line for a page. Names are from outside.
func (l *hostLine) onPage() pageHost {
	h := pageHost{Name: cli.Printable(fmt.Sprintf("%s, %s port %d", l.Host, l.Device, l.Port)),
		Grown: strings.Join(l.formatChanges(), ", ")}
	for _, f := range l.Says {
		h.Says = append(h.Says, cli.Printable(f.Text))
	}
	return h
}

func formatArrow(f *flows.Flow) string { return f.Src.String() + " → " + f.Dst.String() }
