package conform

import (
	"encoding/xml"
	"fmt"
	"html/template"
	"io"

	_ "embed"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/internal/build"
	"github.com/rocecn/rocecn/internal/webpage"
)

// A report collects the results of a run, and prints each when it is there.
type report struct {
	profile *profile
	stdout  io.Writer
	json    bool
	results []result
}

// add prints a result.
func (r *report) add(res result) error {
	r.results = append(r.results, res)
	if r.json {
		return cli.Output(cli.NewJSON(r.stdout).Encode(res))
	}
	_, err := fmt.Fprintf(r.stdout, "%-14s  %-6s  %-6s  %-26s  %s\n", res.Verdict, res.Case, res.Level, res.Section,
		cli.Printable(res.Expected))
	if err == nil && res.Verdict != pass {
		_, err = fmt.Fprintf(r.stdout, "%14s  seen: %s%s\n", "", cli.Printable(res.Seen), res.place())
	}
	return cli.Output(err)
}

// place returns the place of the frame, as a part of a line.
func (r *result) place() string {
	switch {
	case r.Frame > 0 && r.Capture != "":
		return fmt.Sprintf(" (frame %d of %s)", r.Frame, r.Capture)
	case r.Frame > 0:
		return fmt.Sprintf(" (frame %d)", r.Frame)
	}
	return ""
}

// A total is the last line of the JSON of a run.
type total struct {
	Total         bool   `json:"total"`
	Pass          int    `json:"pass"`
	Fail          int    `json:"fail"`
	Inconclusive  int    `json:"inconclusive"`
	NotApplicable int    `json:"not_applicable"`
	Device        string `json:"device"`
	Rocecn        string `json:"rocecn"`
}

func (r *report) total() total {
	count := map[verdict]int{}
	for _, res := range r.results {
		count[res.Verdict]++
	}
	return total{true, count[pass], count[fail], count[inconclusive], count[notApplicable], r.profile.Device.Name,
		build.Read().Version}
}

// end prints the total.
func (r *report) end() error {
	t := r.total()
	if r.json {
		return cli.Output(cli.NewJSON(r.stdout).Encode(t))
	}
	_, err := fmt.Fprintf(r.stdout, "%s as %s: %d pass, %d fail (%d MUST), %d inconclusive, %d not applicable\n",
		cli.Printable(r.profile.Device.Name), r.profile.Device.Role, t.Pass, t.Fail, r.broken(), t.Inconclusive,
		t.NotApplicable)
	return cli.Output(err)
}

// broken returns the number of MUST cases that fail.
func (r *report) broken() (n int) {
	for _, res := range r.results {
		if res.Verdict == fail && res.Level == must {
			n++
		}
	}
	return n
}

// status returns the exit status.
func (r *report) status() int {
	switch {
	case r.broken() > 0:
		return cli.RuleBroken
	case r.total().Inconclusive > 0:
		return cli.Failed
	}
	return 0
}

// The elements of JUnit XML that continuous integration systems read.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string       `xml:"classname,attr"`
		Name    string       `xml:"name,attr"`
		Time    string       `xml:"time,attr"`
		Failure *junitResult `xml:"failure,omitempty"`
		Error   *junitResult `xml:"error,omitempty"`
		Skipped *junitResult `xml:"skipped,omitempty"`
		Output  string       `xml:"system-out,omitempty"`
	}
	junitResult struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes the results as JUnit XML. A failed SHOULD or MAY is a skipped test, as it does not fail the run.
func (r *report) writeJUnit(w io.Writer) error {
	s := junitSuite{Name: "rocecn conform " + r.profile.Device.Role, Tests: len(r.results)}
	for i := range r.results {
		res := &r.results[i]
		c := junitCase{Class: r.profile.Device.Role + "." + res.Requirement, Name: res.Case + " " + res.Expected,
			Time: fmt.Sprintf("%.3f", res.Seconds)}
		message := &junitResult{res.Seen, fmt.Sprintf("%s, %s\nexpected: %s\nseen: %s%s", res.Level, res.Section,
			res.Expected, res.Seen, res.place())}
		switch {
		case res.Verdict == fail && res.Level == must:
			c.Failure = message
			s.Failures++
		case res.Verdict == inconclusive:
			c.Error = message
			s.Errors++
		case res.Verdict != pass:
			c.Skipped = message
			s.Skipped++
		default:
			c.Output = res.Seen
		}
		s.Cases = append(s.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "\t")
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

//go:embed page.html
var pageText string

// writeHTML writes the results as one page that fetches nothing.
func (r *report) writeHTML(w io.Writer) error {
	type row struct {
		*result
		Place string
		About []field
		Got   []field
		Rates []rateRow
	}
	page := struct {
		Device device
		Total  total
		Broken int
		Rows   []row
	}{r.profile.Device, r.total(), r.broken(), nil}
	for i := range r.results {
		res := &r.results[i]
		page.Rows = append(page.Rows, row{res, res.place(), res.about, res.frame, res.rates})
	}
	var t *template.Template = webpage.New(pageText)
	return t.Execute(w, page)
}
