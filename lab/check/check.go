// Package check holds the laboratory against what is known without it: closed
// forms, the fluid model of DCQCN, and a measurement of others.
//
// Each check has rows, and each row bounds on both sides: a network that is too
// good is wrong too.
package check

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"
)

// A Row is one comparison.
type Row struct {
	Check    string  // A1 and so on
	What     string  // what was measured, and where
	Unit     string  // of the figures
	Expected float64 // by the closed form, the model, the measurement
	Low      float64 // the least and the most that agree with it
	High     float64
	Measured float64
}

// OK says whether the measured figure is within the bounds.
func (r *Row) OK() bool { return r.Measured >= r.Low && r.Measured <= r.High }

// A Check is a question to the laboratory.
type Check struct {
	ID    string
	Title string
	Quick bool // takes a second or so, and is a test
	run   func() ([]Row, error)
}

// Run answers it.
func (c *Check) Run() ([]Row, error) {
	rows, err := c.run()
	for i := range rows {
		rows[i].Check = c.ID
	}
	return rows, err
}

// All returns the checks in order.
func All() []Check {
	return []Check{
		{"A1", "latency of an idle path", true, latency},
		{"A2", "waiting of Poisson arrivals, M/D/1", true, waiting},
		{"A3", "pacing and priority", true, pacing},
		{"A4", "headroom of PFC", true, headroom},
		{"A5", "steady state of HPCC", true, hpcc},
		{"A6", "fixed point of DCQCN", false, fixedPoint},
		{"A7", "convergence of DCQCN", false, convergence},
		{"A8", "stability of DCQCN", false, stability},
		{"A9", "time and queue that Fast CNP saves", true, saved},
		{"F", "phase margins of the fluid model, as its authors compute them", true, margins},
		{"A10", "sums, fingerprints, seeds", true, sums},
		{"B1", "two round trips at one port, as measured in a network of Azure", false, azure},
	}
}

// within returns a row whose bounds are a share of what is expected.
func within(what, unit string, expected, share, measured float64) Row {
	d := math.Abs(expected) * share
	return Row{What: what, Unit: unit, Expected: expected, Low: expected - d, High: expected + d, Measured: measured}
}

// exactly returns a row without room.
func exactly(what, unit string, expected, measured float64) Row {
	return within(what, unit, expected, 0, measured)
}

// between returns a row with bounds of its own.
func between(what, unit string, expected, low, high, measured float64) Row {
	return Row{What: what, Unit: unit, Expected: expected, Low: low, High: high, Measured: measured}
}

// Print writes a table of rows.
func Print(w io.Writer, rows []Row) error {
	wide := 0
	for _, r := range rows {
		wide = max(wide, len([]rune(r.What)))
	}
	format := fmt.Sprintf("%%-4s %%-%ds %%11s %%11s %%11s … %%-11s %%-7s %%s", wide)
	line := func(cells ...any) error {
		_, err := fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf(format, cells...), " "))
		return err
	}
	if err := line("", "", "expected", "measured", "from", "to", "", ""); err != nil {
		return err
	}
	for _, r := range rows {
		verdict := "ok"
		if !r.OK() {
			verdict = "WRONG"
		}
		err := line(r.Check, r.What, figure(r.Expected), figure(r.Measured), figure(r.Low), figure(r.High), r.Unit,
			verdict)
		if err != nil {
			return err
		}
	}
	return nil
}

// figure prints whole numbers whole, others with five digits.
func figure(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e12 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.5g", x)
}

// Run runs checks, as many at a time as there are processors, and returns their rows in
// order. It says on progress what has begun and ended. When ctx ends, those that
// have not begun are left out.
func Run(ctx context.Context, checks []Check, progress func(c Check, done bool)) ([]Row, error) {
	rows := make([][]Row, len(checks))
	errs := make([]error, len(checks))
	todo := make(chan int)
	var say sync.Mutex
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(checks)) {
		all.Go(func() {
			for i := range todo {
				say.Lock()
				progress(checks[i], false)
				say.Unlock()
				rows[i], errs[i] = checks[i].Run()
				say.Lock()
				progress(checks[i], true)
				say.Unlock()
			}
		})
	}
	err := ctx.Err()
	for i := 0; i < len(checks) && err == nil; i++ {
		select {
		case todo <- i:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	close(todo)
	all.Wait()
	var flat []Row
	for i := range checks {
		flat = append(flat, rows[i]...)
		if errs[i] != nil {
			err = fmt.Errorf("%s: %w", checks[i].ID, errs[i])
		}
	}
	return flat, err
}
