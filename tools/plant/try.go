package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A count is a row of the table.
type count struct{ planted, noticed, excused int }

// tryFaults tries one fault after the other, prints a line for each, and a table by stratum.
func tryFaults(ctx context.Context, out io.Writer, t *tree, faults []fault) error {
	passed := map[string]bool{}
	for _, f := range faults {
		key := strings.Join(f.Tests, " ")
		if passed[key] {
			continue
		}
		if o := t.runTests(ctx, f.Tests); o.invalid != nil {
			return fmt.Errorf("go test %s, without a fault: %w", key, o.invalid)
		} else if o.failed {
			return fmt.Errorf("go test %s fails without a fault: %s", key, o.reason)
		}
		passed[key] = true
	}

	counts := map[string]*count{}
	var invalid []string
	for i := range faults {
		f := &faults[i]
		start := time.Now()
		o := tryFault(ctx, t, f)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if o.invalid != nil {
			fmt.Fprintf(out, "INVALID %s: %v\n", f.Name, o.invalid)
			invalid = append(invalid, f.Name)
			continue
		}
		c := counts[f.Stratum]
		if c == nil {
			c = new(count)
			counts[f.Stratum] = c
		}
		c.planted++
		took := time.Since(start).Round(100 * time.Millisecond)
		switch {
		case o.failed:
			c.noticed++
			fmt.Fprintf(out, "noticed %s: %s (%s, %v)\n", f.Stratum, f.Name, o.reason, took)
		case f.Missed != "":
			c.excused++
			fmt.Fprintf(out, "missed, as expected, %s: %s (%s, %v)\n", f.Stratum, f.Name, f.Missed, took)
		default:
			fmt.Fprintf(out, "MISSED %s: %s (%s, %v)\n", f.Stratum, f.Name, f.File, took)
		}
	}
	missed := printTable(out, counts)
	switch {
	case len(invalid) > 0:
		return fmt.Errorf("%d faults could not be planted: %s", len(invalid), strings.Join(invalid, "; "))
	case missed > 0:
		return fmt.Errorf("%d faults are missed", missed)
	}
	return nil
}

// tryFault plants a fault, runs its tests and removes it.
func tryFault(ctx context.Context, t *tree, f *fault) (o outcome) {
	if err := t.plant(f); err != nil {
		return outcome{invalid: errors.Join(err, t.restore(f.File))}
	}
	defer func() {
		restore := func() error { return t.restore(f.File) }
		if len(f.Prepare) > 0 {
			restore = t.refill
		}
		if err := restore(); err != nil {
			o = outcome{invalid: err}
		}
	}()
	if len(f.Prepare) > 0 {
		program := f.Prepare[0]
		if strings.Contains(program, "/") {
			program = filepath.Join(t.dir, program)
		}
		if text, err := t.execute(ctx, t.dir, program, f.Prepare[1:]); err != nil {
			return outcome{invalid: fmt.Errorf("%q: %w\n%s", f.Prepare, err, text)}
		}
	}
	return t.runTests(ctx, f.Tests)
}

// printTable prints the counts and returns the number of missed faults without a reason.
func printTable(out io.Writer, counts map[string]*count) (missed int) {
	var strata []string
	for name := range counts {
		strata = append(strata, name)
	}
	slices.Sort(strata)
	var total count
	row := func(name string, c *count) {
		fmt.Fprintf(out, "| %s | %d | %d | %d |\n", name, c.planted, c.noticed, c.planted-c.noticed-c.excused)
	}
	fmt.Fprint(out, "\n| stratum | planted | noticed | missed without a reason |\n|---|--:|--:|--:|\n")
	for _, name := range strata {
		c := counts[name]
		row(name, c)
		total.planted += c.planted
		total.noticed += c.noticed
		total.excused += c.excused
	}
	row("all", &total)
	return total.planted - total.noticed - total.excused
}
