package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"

	"github.com/rocecn/rocecn/internal/build"
	"github.com/rocecn/rocecn/lab/check"
	"github.com/rocecn/rocecn/lab/experiment"
)

// outputs are the options for printing results.
type outputs struct {
	json bool   // instead of tables
	page string // the file of a page; empty for none
}

// outputsOf returns the outputs that flags choose.
func outputsOf(f *flag.FlagSet) *outputs {
	o := &outputs{}
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.page, "html", "", "write a page of experiments to this `file`")
	return o
}

// options are the options of run.
type options struct {
	*outputs
	quick bool
	seeds int
	share string // as in 2/8; empty for everything
	state string // file of the results so far; empty for none

	variants string // of scenarios, with commas; empty for all
	messages string // file for a table of the messages of a scenario
	series   string // file for a table of a scenario over time
	cases    string // regular expression for the names of cases; empty for all
}

// runExperiments runs experiments.
func (o *options) runExperiments(ctx context.Context, names []string, stdout, stderr io.Writer) int {
	size := experiment.Full
	for _, name := range names {
		o.quick = o.quick || name == "quick"
	}
	if o.quick {
		size = experiment.Quick
	}
	chosen, err := experiment.Chosen(names)
	plan := experiment.Plan{}
	if err == nil && o.share != "" {
		plan.Share, plan.Of, err = readShare(o.share)
	}
	if err == nil && (o.seeds < 0 || o.seeds > 1000) {
		err = fmt.Errorf("-seeds: %d: want 1 to 1000", o.seeds)
	}
	some, wrong := regexp.Compile(o.cases)
	if err == nil && wrong != nil {
		err = fmt.Errorf("-cases: %w", wrong)
	}
	if err != nil {
		fmt.Fprintf(stderr, "rocelab run: %v\n", err)
		return misused
	}
	if plan.Before, err = o.readState(size); err != nil {
		fmt.Fprintf(stderr, "rocelab run: -results: %v\n", err)
		return failed
	}
	if o.state != "" {
		plan.Save = o.writeState
	}
	for i := range chosen {
		for _, c := range chosen[i].Cases(size, o.seeds) {
			if some.MatchString(c.Name) {
				plan.Cases = append(plan.Cases, c)
			}
		}
	}
	p := newProgress(stderr)
	results, err := plan.Run(ctx, build.Read().Commit(), size,
		func(done float64) { p.printText(fmt.Sprintf("%.0f %%", done*100)) })
	if results == nil {
		fmt.Fprintf(stderr, "rocelab run: %v\n", err)
		return failed
	}
	if err == nil && plan.Share <= 1 { // once, of all shares
		err = o.runOthers(ctx, results, names)
		if err != nil && !errors.Is(err, ctx.Err()) {
			fmt.Fprintf(stderr, "rocelab run: %v\n", err)
			return failed
		}
	}
	if code := o.writeOutputs(results, "run", stdout, stderr); code != 0 {
		return code
	}
	if err != nil {
		fmt.Fprintf(stderr, "rocelab run: interrupted; %d runs are missing\n", results.Missing())
		return interrupted
	}
	return 0
}

// readState returns the results of an earlier run that -results names, or nil if there are none.
func (o *options) readState(size experiment.Size) (*experiment.Results, error) {
	if o.state == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.state)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &experiment.Results{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", o.state, err)
	}
	if r.Size != size.String() {
		return nil, fmt.Errorf("%s: results of size %s: want %s", o.state, r.Size, size)
	}
	return r, nil
}

// writeState writes the results so far to the file that -results names.
func (o *options) writeState(r *experiment.Results) error {
	var text bytes.Buffer
	if err := writeJSON(&text, r); err != nil {
		return err
	}
	next := o.state + ".new"
	if err := os.WriteFile(next, text.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(next, o.state)
}

// runOthers adds the results that are no experiments: runs over time, and the checks of the laboratory.
func (o *options) runOthers(ctx context.Context, r *experiment.Results, names []string) error {
	asked := func(name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return n == name || n == "quick" || n == "all" })
	}
	if asked("time") {
		if err := r.AddSeries(ctx); err != nil {
			return err
		}
	}
	if !asked("checks") {
		return nil
	}
	var chosen []check.Check
	for _, c := range check.All() {
		if c.Quick || !o.quick {
			chosen = append(chosen, c)
		}
	}
	var err error
	r.Checks, err = check.Run(ctx, chosen, func(check.Check, bool) {})
	return err
}

// readShare reads a share such as 2/8.
func readShare(text string) (share, of int, err error) {
	n, err := fmt.Sscanf(text+"\n", "%d/%d\n", &share, &of)
	if n != 2 || err != nil || share < 1 || share > of {
		return 0, 0, fmt.Errorf("-share: %q is not a share such as 2/8", text)
	}
	return share, of, nil
}

// mergeResults puts results together.
func mergeResults(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	f := newFlags("merge", stderr)
	o := outputsOf(f)
	if err := f.Parse(args); err != nil {
		return exitStatus(err)
	}
	if f.NArg() == 0 {
		fmt.Fprint(stderr, usage)
		return misused
	}
	var all []*experiment.Results
	for _, name := range f.Args() {
		text, err := readInput(name, stdin)
		if err != nil {
			fmt.Fprintf(stderr, "rocelab merge: %v\n", err)
			return failed
		}
		r := &experiment.Results{}
		err = json.Unmarshal(text, r)
		if err == nil && len(r.Cases)+len(r.Series)+len(r.Checks) == 0 {
			err = errors.New("no results of experiments")
		}
		if err != nil {
			fmt.Fprintf(stderr, "rocelab merge: %s: %v\n", name, err)
			return failed
		}
		all = append(all, r)
	}
	results, err := experiment.Merge(all)
	if err != nil {
		fmt.Fprintf(stderr, "rocelab merge: %v\n", err)
		return failed
	}
	if code := o.writeOutputs(results, "merge", stdout, stderr); code != 0 {
		return code
	}
	if missing := results.Missing(); missing > 0 {
		fmt.Fprintf(stderr, "rocelab merge: %d runs are missing\n", missing)
	}
	return 0
}

// writeOutputs writes results.
func (o *outputs) writeOutputs(r *experiment.Results, command string, stdout, stderr io.Writer) int {
	err := o.writePage(r)
	switch {
	case err != nil:
	case o.json:
		err = writeJSON(stdout, r)
	default:
		err = r.Print(stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "rocelab %s: %v\n", command, err)
		return failed
	}
	return 0
}

func (o *outputs) writePage(r *experiment.Results) error {
	if o.page == "" {
		return nil
	}
	var page bytes.Buffer
	if err := r.Page(&page); err != nil {
		return err
	}
	return os.WriteFile(o.page, page.Bytes(), 0o644)
}

// writeJSON writes results with one run a line, so that differences can be read.
func writeJSON(w io.Writer, r *experiment.Results) error {
	out := bufio.NewWriter(w)
	head, err := json.Marshal(struct {
		Commit string `json:"commit"`
		Size   string `json:"size"`
	}{r.Commit, r.Size})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s", head[:len(head)-1])
	err = errors.Join(writeList(out, "cases", r.Cases), writeList(out, "runs", r.Runs),
		writeList(out, "series", r.Series), writeList(out, "checks", r.Checks))
	if err != nil {
		return err
	}
	fmt.Fprint(out, "}\n")
	return out.Flush()
}

func writeList[T any](out io.Writer, name string, list []T) error {
	fmt.Fprintf(out, ",\n%q: [", name)
	for i := range list {
		text, err := json.Marshal(&list[i])
		if err != nil {
			return err
		}
		comma := ","
		if i == 0 {
			comma = ""
		}
		fmt.Fprintf(out, "%s\n%s", comma, text)
	}
	_, err := fmt.Fprint(out, "]")
	return err
}
