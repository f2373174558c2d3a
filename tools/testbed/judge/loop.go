package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const payload = 1024 // octets of each packet that the loop needs

// A load has the fields of the file load.json of a run.
type load struct {
	Needed int    `json:"needed"` // packets
	Level  int    `json:"level"`  // the depth in octets that is called congested
	Warm   uint32 `json:"warm"`   // packets that a queue pair sends before, to be known
}

// loopTable prints, of each variant of the loop, the medians of its runs. A run's folder
// is loop-VARIANT.NUMBER.
func loopTable(w io.Writer, cases []testCase) error {
	variants := map[string][]queueRun{}
	needed := map[string]int{}
	for _, c := range cases {
		variant, _, ok := strings.Cut(strings.TrimPrefix(filepath.Base(c.folder), "loop-"), ".")
		if !ok {
			continue
		}
		var l load
		if err := json.Unmarshal([]byte(c.readText("load.json")), &l); err != nil {
			return fmt.Errorf("load.json: %w", err)
		}
		q, err := c.readQueue(l)
		if err != nil {
			return err
		}
		needed[variant] = l.Needed
		variants[variant] = append(variants[variant], q)
	}
	if len(variants) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nLOOP\tRUNS\tQUEUE P50\tQUEUE P99\tDROPS\tSENT PER NEEDED\tGOODPUT\tDEEP\t",
		"NOTIFICATIONS\tNEWS\tSLOWER\n")
	var within time.Duration
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		runs := variants[name]
		need := needed[name]
		for _, q := range runs {
			within = max(within, q.within)
		}
		fmt.Fprintf(t, "%s\t%d\t%d o\t%d o\t%d\t%.2f\t%.2f Mbit/s\t%v\t%d\t%s\t%s\n", name, len(runs),
			median(runs, func(q queueRun) int { return quantile(q.depths, 50) }),
			median(runs, func(q queueRun) int { return quantile(q.depths, 99) }),
			median(runs, func(q queueRun) int { return q.drops }),
			median(runs, func(q queueRun) float64 { return float64(q.sent) / float64(need) }),
			median(runs, func(q queueRun) float64 { return float64(need*payload*8) / q.took.Seconds() / 1e6 }),
			median(runs, func(q queueRun) time.Duration { return q.deep }).Round(100*time.Microsecond),
			median(runs, func(q queueRun) int { return q.notifications }),
			formatSpread(runs, func(q queueRun) (time.Duration, bool) { return q.news, q.notified }),
			formatSpread(runs, func(q queueRun) (time.Duration, bool) { return q.slower, q.slowed }))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "SLOWER is right to %v: clocks.\n", within.Round(10*time.Microsecond))
	return err
}

// formatSpread returns the text with the median of the values of the runs, the upper one of two, their
// minimum and maximum, and the number of runs with a value if some have none.
func formatSpread(runs []queueRun, of func(queueRun) (time.Duration, bool)) string {
	var values []time.Duration
	for _, q := range runs {
		if d, ok := of(q); ok {
			values = append(values, d.Round(100*time.Microsecond))
		}
	}
	if len(values) == 0 {
		return "-"
	}
	slices.Sort(values)
	text := fmt.Sprintf("%v (%v to %v)", values[len(values)/2], values[0], values[len(values)-1])
	if len(values) < len(runs) {
		text += fmt.Sprintf(" of %d", len(values))
	}
	return text
}

// quantile is that of so many in a hundred, the lower one of two.
func quantile(values []int, percent int) int {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)*percent/100]
}

// median returns the median of the values of the runs, the upper one of two.
func median[N int | float64 | time.Duration](runs []queueRun, of func(queueRun) N) N {
	var values []N
	for _, q := range runs {
		values = append(values, of(q))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
