package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A record is a run of a target, a line of the log.
type record struct {
	at         time.Time // when it began
	commit     string
	target     string
	processor  time.Duration // time of a processor, to milliseconds
	executions int
	found      int // inputs that reached new code
	corpus     int // all inputs that are kept
	ok         bool
}

// header is the first line of a log, with the names of its columns.
const header = "time\tcommit\ttarget\tseconds\texecutions\tnew\tcorpus\tresult\n"

// String returns the line.
func (r record) String() string {
	result := "failed"
	if r.ok {
		result = "ok"
	}
	return fmt.Sprintf("%s\t%s\t%s\t%.3f\t%d\t%d\t%d\t%s\n", r.at.Format(time.RFC3339), r.commit, r.target,
		r.processor.Seconds(), r.executions, r.found, r.corpus, result)
}

// parseRecord reads a line.
func parseRecord(line string) (r record, err error) {
	f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	if len(f) != 8 {
		return r, fmt.Errorf("%d columns", len(f))
	}
	r.commit, r.target, r.ok = f[1], f[2], f[7] == "ok"
	if r.at, err = time.Parse(time.RFC3339, f[0]); err != nil {
		return r, err
	}
	seconds, err := strconv.ParseFloat(f[3], 64)
	if err != nil {
		return r, err
	}
	r.processor = time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
	for i, n := range []*int{&r.executions, &r.found, &r.corpus} {
		if *n, err = strconv.Atoi(f[4+i]); err != nil {
			return r, err
		}
	}
	return r, nil
}

// readLog reads a log, or logs put together.
func readLog(name string) (runs []record, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for n := 1; s.Scan(); n++ {
		if s.Text()+"\n" == header {
			continue
		}
		r, err := parseRecord(s.Text())
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		runs = append(runs, r)
	}
	return runs, s.Err()
}

// appendLog adds a run to a log. Several programs may do so at the same time.
func appendLog(name string, r record) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	line := r.String()
	if info, err := f.Stat(); err == nil && info.Size() == 0 {
		line = header + line
	}
	_, err = f.WriteString(line)
	return err
}

// writeSummary writes a table of the runs, in Markdown.
func writeSummary(w io.Writer, runs []record) error {
	sums := map[string]*record{}
	var order []string
	sum := record{target: "all"}
	failed := map[string]int{}
	for _, r := range runs {
		s := sums[r.target]
		if s == nil {
			s = &record{target: r.target}
			sums[r.target], order = s, append(order, r.target)
		}
		s.corpus = r.corpus
		for _, s := range []*record{s, &sum} {
			s.processor += r.processor
			s.executions += r.executions
			s.found += r.found
			if !r.ok {
				failed[s.target]++
			}
		}
	}
	slices.Sort(order)
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "| target | minutes | executions | new inputs | inputs kept | runs that failed |")
	fmt.Fprintln(out, "|---|--:|--:|--:|--:|--:|")
	for _, name := range order {
		sum.corpus += sums[name].corpus
		writeRow(out, sums[name], failed[name])
	}
	writeRow(out, &sum, failed["all"])
	if len(runs) > 0 {
		earlier := func(a, b record) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.commit, b.commit)) }
		first, last := slices.MinFunc(runs, earlier), slices.MaxFunc(runs, earlier)
		fmt.Fprintf(out, "\n%d targets, %d runs, from %s (%s) to %s (%s).\n", len(order), len(runs),
			first.at.Format(time.DateTime), first.commit, last.at.Format(time.DateTime), last.commit)
	}
	return out.Flush()
}

func writeRow(w io.Writer, r *record, failed int) {
	fmt.Fprintf(w, "| %s | %.1f | %d | %d | %d | %d |\n", r.target, r.processor.Minutes(), r.executions, r.found,
		r.corpus, failed)
}
