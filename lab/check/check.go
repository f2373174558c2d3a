// Package check compares the laboratory with independent results: closed forms,
// the fluid model of DCQCN, and a published measurement.
//
// Each check has rows, and each row has a lower and an upper bound: a result
// that is too good is wrong, too.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
)

// A Row is one comparison.
type Row struct {
	Check    string  // A1 and so on
	What     string  // the measured quantity and its place
	Unit     string  // of the figures
	Expected float64 // by the closed form, the model, the measurement
	Low      float64 // the bounds of the measured figure
	High     float64
	Measured float64 // with several seeds the median

	// The number of seeds, if there are several, and the bounds of the median of all seeds, as [lab.Median]
	// says.
	Seeds    int
	From, To float64
}

// OK reports whether the measured figure is within the bounds.
func (r *Row) OK() bool { return r.Measured >= r.Low && r.Measured <= r.High }

// A Check compares one kind of result.
type Check struct {
	ID    string
	Title string
	Rows  int  // number of rows
	Quick bool // takes about a second, and is also run as a test
	run   func(t *trial) ([]Row, error)
}

// Run runs the check. If ctx ends before, it returns the rows so far and the error of ctx. While networks run
// it calls goesOn, which may be nil, again and again.
func (c *Check) Run(ctx context.Context, goesOn func()) ([]Row, error) {
	t := &trial{ctx: ctx, goesOn: goesOn, open: map[*lab.Network]bool{}}
	rows, err := c.run(t)
	for i := range rows {
		rows[i].Check = c.ID
	}
	switch {
	case err != nil:
	case len(t.open) > 0:
		err = fmt.Errorf("%d networks did not have their sums checked", len(t.open))
	case len(rows) != c.Rows:
		err = fmt.Errorf("%d rows, and not %d", len(rows), c.Rows)
	}
	return rows, err
}

// A trial is one run of a check. Its networks are made by network, run by until, and finished by ends, which
// checks their counters.
type trial struct {
	ctx    context.Context
	goesOn func()
	open   map[*lab.Network]bool // not finished yet
}

func (t *trial) newNetwork(cfg lab.Config) *lab.Network {
	n, err := lab.New(cfg)
	if err != nil {
		panic("check: " + err.Error()) // all configurations are this package's own
	}
	t.open[n] = true
	return n
}

func (t *trial) runUntil(n *lab.Network, at sim.Time) error { return n.Run(t.ctx, at, t.goesOn) }

func (t *trial) runToEnd(n *lab.Network) error {
	delete(t.open, n)
	return n.Check()
}

// All returns the checks in order.
func All() []Check {
	return []Check{
		{"A1", "latency of an idle path", 12, true, checkLatency},
		{"A2", "waiting of Poisson arrivals, M/D/1", 8, true, checkWaiting},
		{"A3", "pacing and priority", 9, true, checkPacing},
		{"A4", "headroom of PFC", 20, true, checkHeadroom},
		{"A5", "steady state of HPCC", 24, true, checkHPCC},
		{"A6", "fixed point of DCQCN", 36, false, fixedPoint},
		{"A7", "convergence of DCQCN", 6, false, checkConvergence},
		{"A8", "stability of DCQCN", 26, false, checkStability},
		{"A9", "time and queue that Fast CNP saves", 47, true, checkSaved},
		{"F", "phase margins of the fluid model, as its authors compute them", 30, true, checkMargins},
		{"A10", "sums, fingerprints, seeds", 42, true, checkSums},
		{"A11", "target of Swift", 18, true, checkSwift},
		{"A12", "fixed point of patched TIMELY", 12, false, checkTimely},
		{"B1", "two round trips at one port, as measured in a network of Azure", 10, false, checkAzure},
	}
}

// rowWithin returns a row with bounds of plus and minus a share of the expected figure.
func rowWithin(what, unit string, expected, share float64, measured ...float64) Row {
	d := math.Abs(expected) * share
	return Between(what, unit, expected, expected-d, expected+d, measured...)
}

// rowExactly returns a row with the expected figure as both bounds.
func rowExactly(what, unit string, expected, measured float64) Row {
	return rowWithin(what, unit, expected, 0, measured)
}

// Between returns a row with these bounds. Several measurements count by their median.
func Between(what, unit string, expected, low, high float64, measured ...float64) Row {
	r := Row{What: what, Unit: unit, Expected: expected, Low: low, High: high}
	r.Measured, r.From, r.To = lab.Median(measured)
	if len(measured) > 1 {
		r.Seeds = len(measured)
	}
	return r
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
		if r.Seeds > 0 {
			verdict = fmt.Sprintf("%-5s median of %d seeds: %s … %s", verdict, r.Seeds, formatFigure(r.From),
				formatFigure(r.To))
		}
		err := line(r.Check, r.What, formatFigure(r.Expected), formatFigure(r.Measured), formatFigure(r.Low),
			formatFigure(r.High), r.Unit,
			verdict)
		if err != nil {
			return err
		}
	}
	return nil
}

// formatFigure prints integers completely, other numbers with five digits.
func formatFigure(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e12 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.5g", x)
}

// Run runs checks, as many at a time as there are processors, and returns their rows in order. It reports the
// checks that run, again and again, and that are done to progress. When ctx ends, checks that have not begun
// are left out, the others end soon, and the error is that of ctx.
func Run(ctx context.Context, checks []Check, progress func(c Check, done bool)) ([]Row, error) {
	rows := make([][]Row, len(checks))
	errs := make([]error, len(checks))
	todo := make(chan int)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(checks)) {
		all.Go(func() {
			for i := range todo {
				report := func(done bool) {
					mu.Lock()
					progress(checks[i], done)
					mu.Unlock()
				}
				report(false)
				rows[i], errs[i] = checks[i].Run(ctx, func() { report(false) })
				report(true)
			}
		})
	}
	for i := 0; i < len(checks) && ctx.Err() == nil; i++ {
		select {
		case todo <- i:
		case <-ctx.Done():
		}
	}
	close(todo)
	all.Wait()
	var flat []Row
	err := ctx.Err()
	for i := range checks {
		flat = append(flat, rows[i]...)
		if errs[i] != nil && !errors.Is(errs[i], ctx.Err()) {
			err = fmt.Errorf("%s: %w", checks[i].ID, errs[i])
		}
	}
	return flat, err
}

// Missing lists the checks with missing rows and their number: "A6, 12 of 36 rows".
func Missing(checks []Check, rows []Row) (missing []string) {
	for _, c := range checks {
		there := 0
		for i := range rows {
			if rows[i].Check == c.ID {
				there++
			}
		}
		if there < c.Rows {
			missing = append(missing, fmt.Sprintf("%s, %d of %d rows", c.ID, c.Rows-there, c.Rows))
		}
	}
	return missing
}
