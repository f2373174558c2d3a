package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"os"

	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/rocecn/rocecn/lab/sim"
)

// seriesPoints is the number of intervals of the tables of -series.
const seriesPoints = 200

// writeMessages writes a line for each message that has ended.
func writeMessages(file string, results []scenario.Result) error {
	rows := [][]string{{
		"variant", "seed", "from", "to", "octets", "posted_us", "completion_us", "alone_us", "slowdown",
	}}
	for i := range results {
		r := &results[i]
		for _, m := range r.Messages {
			rows = append(rows, []string{
				r.Variant.String(), fmt.Sprint(r.Seed), fmt.Sprint(m.From), fmt.Sprint(m.To), fmt.Sprint(m.Octets),
				formatMicroseconds(m.Posted), formatMicroseconds(m.Took), formatMicroseconds(m.Alone),
				fmt.Sprintf("%.4g", float64(m.Took)/float64(m.Alone)),
			})
		}
	}
	return writeCSV(file, rows)
}

// writeSeries runs each variant of a scenario with each seed again, and writes a line for each interval.
func writeSeries(ctx context.Context, file string, s *scenario.Scenario) error {
	rows := [][]string{{
		"variant", "seed", "end_us", "port", "queue_octets", "use_percent", "rate_gbps", "notifications",
	}}
	every := max(sim.Time(s.Duration)/seriesPoints, 1)
	for _, v := range s.Variants {
		for _, seed := range s.Seeds {
			run, err := s.Series(ctx, v, seed, every)
			if err != nil {
				return err
			}
			for i := range run.Queue {
				rows = append(rows, []string{
					v.String(), fmt.Sprint(seed), formatMicroseconds(sim.Time(i+1) * every), run.Port,
					fmt.Sprint(run.Queue[i]), fmt.Sprintf("%.4g", run.Use[i]*100),
					fmt.Sprintf("%.6g", run.Rate[i]/1e9), fmt.Sprint(run.Notice[i]),
				})
			}
		}
	}
	return writeCSV(file, rows)
}

// formatMicroseconds returns a time in microseconds, with all its digits.
func formatMicroseconds(t sim.Time) string { return fmt.Sprint(float64(t) / float64(sim.Microsecond)) }

func writeCSV(file string, rows [][]string) error {
	var text bytes.Buffer
	out := csv.NewWriter(&text)
	if err := out.WriteAll(rows); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}
