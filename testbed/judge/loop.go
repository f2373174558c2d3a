package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

const payload = 1024 // octets of each packet that the loop needs

// loopTable prints, of each variant of the loop, the medians of its runs. A run's folder
// is loop-VARIANT.NUMBER; besides the captures it has how many packets were needed, and
// which depth is called congested.
func loopTable(w io.Writer, cases []testCase) error {
	variants := map[string][]queueRun{}
	needed := map[string]int{}
	for _, c := range cases {
		variant, _, ok := strings.Cut(strings.TrimPrefix(filepath.Base(c.folder), "loop-"), ".")
		if !ok {
			continue
		}
		level, err := strconv.Atoi(strings.TrimSpace(c.text("level")))
		if err != nil {
			return err
		}
		if needed[variant], err = strconv.Atoi(strings.TrimSpace(c.text("needed"))); err != nil {
			return err
		}
		q, err := readQueue(c.folder, level)
		if err != nil {
			return err
		}
		variants[variant] = append(variants[variant], q)
	}
	if len(variants) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nLOOP\tRUNS\tQUEUE P50\tQUEUE P99\tDROPS\tSENT PER NEEDED\tGOODPUT\tDEEP\t",
		"NOTIFICATIONS\tNEWS\t(RANGE)\tOF RUNS\n")
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		runs := variants[name]
		need := needed[name]
		var news []time.Duration
		for _, q := range runs {
			if q.told {
				news = append(news, q.news)
			}
		}
		fmt.Fprintf(t, "%s\t%d\t%d o\t%d o\t%d\t%.2f\t%.2f Mbit/s\t%v\t%d\t", name, len(runs),
			median(runs, func(q queueRun) int { return quantile(q.depths, 50) }),
			median(runs, func(q queueRun) int { return quantile(q.depths, 99) }),
			median(runs, func(q queueRun) int { return q.drops }),
			median(runs, func(q queueRun) float64 { return float64(q.sent) / float64(need) }),
			median(runs, func(q queueRun) float64 { return float64(need*payload*8) / q.took.Seconds() / 1e6 }),
			median(runs, func(q queueRun) time.Duration { return q.deep }).Round(100*time.Microsecond),
			median(runs, func(q queueRun) int { return q.notifications }))
		if len(news) == 0 {
			fmt.Fprintf(t, "-\t-\t0\n")
			continue
		}
		slices.Sort(news)
		round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
		least, most := news[0], news[len(news)-1]
		fmt.Fprintf(t, "%v\t(%v to %v)\t%d\n", round(news[len(news)/2]), round(least), round(most), len(news))
	}
	return t.Flush()
}

// quantile is that of so many in a hundred, the lower one of two.
func quantile(values []int, percent int) int {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)*percent/100]
}

// median is that of what of returns for each run, the upper one of two.
func median[N int | float64 | time.Duration](runs []queueRun, of func(queueRun) N) N {
	var values []N
	for _, q := range runs {
		values = append(values, of(q))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
