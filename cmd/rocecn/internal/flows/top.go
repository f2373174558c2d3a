package flows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/batches"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/terminal"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/rocev2"
)

const topUsage = `usage: rocecn top [flags] -i INTERFACE
       rocecn top [flags] FILE…
Shows the flows of RoCEv2 traffic that are in trouble now: on a terminal a screen that refreshes, elsewhere one block
after the other. For a file, each interval of its time is shown. Keys: n, r, s, b: sort by notifications,
retransmissions, stalls or bit/s; q: quit.

`

// A watch shows each interval: flows in trouble, and packets not seen.
type watch struct {
	out       io.Writer
	terminal  *terminal.Terminal // nil where the output is none
	colour    bool
	name      string // of the input
	interval  time.Duration
	rows      int // flows of a block, where there is no terminal
	order     topOrder
	separator string
	screens   int // to be shown still, negative without end
	reader    *reader
	of        *accountant

	// The last snapshot shown, and flows without packets since.
	last     *flows.Snapshot
	from, to time.Time
	silent   []flows.Flow

	verdicts  []triage.Verdict // with evidence in the interval
	explained time.Time        // last search for verdicts, of a terminal

	remembered map[rocev2.FlowKey]flows.Flow // in trouble when something came of them last
}

const (
	maxRemembered = 256              // flows that are remembered
	rememberTime  = 10 * time.Second // and the minimum time
)

// errShown ends the reading once all screens that were asked for have been shown.
var errShown = errors.New("all screens are shown")

// Top is the command that shows flows in trouble: it returns the exit status.
func Top(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o := &options{inputs: cli.Inputs{Stdin: stdin}, workers: batches.DefaultWorkers(), form: "top"}
	w := &watch{out: stdout, remembered: map[rocev2.FlowKey]flows.Flow{}}
	flags := cli.Flags("top", topUsage, stderr)
	flags.DurationVar(&o.interval, "interval", time.Second, "`time` of the capture for each screen")
	flags.IntVar(&w.screens, "n", -1, "end after `N` screens; below 0: when interrupted, or at the end of the file")
	once := flags.Bool("once", false, "end after one screen, as -n 1")
	sort := flags.String("sort", "notifications", "sort key: `notifications, repeats, stalls or rate`; "+
		"equal flows are sorted by the others, in this order")
	flags.IntVar(&w.rows, "top", 20, "show the first `N` flows, on a terminal at most as many as fit")
	flags.IntVar(&o.table.MaxFlows, "max-flows", liveFlows, "maximum number of `flows` in the table")
	codePoints := o.defineFlags(flags)
	if status, ok := o.inputs.Parse(flags, args); !ok {
		return status
	}
	var err error
	o.decoder.Config, err = codePoints.Config()
	w.order = topOrder(slices.Index(topOrders[:], *sort))
	switch {
	case err != nil:
	case w.order < 0:
		err = fmt.Errorf("-sort %q: want one of %s", *sort, strings.Join(topOrders[:], ", "))
	case o.interval <= 0:
		err = fmt.Errorf("-interval %v: want a time above 0s", o.interval)
	case w.rows < 1:
		err = fmt.Errorf("-top %d: want 1 or more", w.rows)
	case w.screens == 0:
		err = errors.New("-n 0: want a number other than 0")
	case o.table.MaxFlows < minFlows:
		err = fmt.Errorf("-max-flows %d: want %d or more", o.table.MaxFlows, minFlows)
	}
	if err != nil {
		return cli.Misuse(stderr, "top", err)
	}
	if *once {
		w.screens = 1
	}
	o.order, o.table.Evidence = orders["trouble"], true
	return w.run(ctx, o, stderr)
}

func (w *watch) run(ctx context.Context, o *options, stderr io.Writer) (status int) {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	a := accountant{options: o, table: flows.New(o.table), show: w.showInterval}
	r := reader{inputs: o.inputs, decoder: o.decoder, workers: o.workers, packets: a.countPackets,
		datagram: a.countDatagram, idle: a.advanceIdle}
	w.interval, w.reader, w.of = o.interval, &r, &a
	if w.terminal = terminal.Open(o.inputs.Stdin, w.out); w.terminal != nil {
		w.colour = os.Getenv("NO_COLOR") == ""
		asks := make(chan func())
		r.asks = asks
		go w.terminal.Keys(func(key byte) {
			i := strings.IndexByte(topKeys, key)
			switch {
			case key == 'q' || key == 'Q':
				quit()
			case i >= 0:
				select {
				case asks <- func() { w.order = topOrder(i); w.draw() }:
				case <-ctx.Done():
				}
			}
		})
		defer w.restoreTerminal()
		w.name = filepath.Base(o.inputs.Names[0])
		w.last = a.table.Snapshot()
		w.draw()
	}
	var err error
	reading := ""
	for _, reading = range o.inputs.Names {
		w.name = filepath.Base(reading)
		if err = r.readCapture(ctx, reading); err != nil {
			break
		}
	}
	// On a terminal an interrupt is the end of it all, elsewhere that of the input.
	if a.hasInterval() && (err == nil || err == errUnknownLink) && (w.terminal == nil || ctx.Err() == nil) {
		err = cmp.Or(a.printInterval(), err)
	}
	w.restoreTerminal()
	var out cli.OutputError
	switch {
	case errors.As(err, &out):
		return cli.End(stderr, "top", out)
	case err != nil && err != errShown:
		cli.PrintError(stderr, "top", reading, err)
		if err != errUnknownLink {
			status = cli.Failed
		}
	}
	a.printSummary(stderr, &r)
	return status
}

// restoreTerminal restores the terminal, and leaves the last output on it.
func (w *watch) restoreTerminal() {
	if w.terminal != nil {
		width, height := w.terminal.Size()
		w.terminal.Close()
		w.terminal = nil
		w.out.Write(w.formatBlock(width, height-1))
	}
}

// showInterval shows an interval.
func (w *watch) showInterval(s *flows.Snapshot) error {
	w.last, w.from, w.to = s, w.of.from, w.of.to
	w.rememberSilent(s)
	w.explain(s)
	err := w.draw()
	if w.screens--; err == nil && w.screens == 0 {
		err = errShown
	}
	return err
}

// explainPause is the minimum time between two searches for verdicts on a terminal, because a search takes time by all
// flows, not only those of the interval.
const explainPause = 500 * time.Millisecond

// explain finds the verdicts with evidence in the interval.
func (w *watch) explain(s *flows.Snapshot) {
	if w.terminal != nil && time.Since(w.explained) < explainPause {
		return
	}
	w.explained = time.Now()
	w.verdicts = nil
	troubled := func(f flows.Flow) bool { return f.Trouble() > 0 || f.Data.CE > 0 }
	if len(s.Links) == 0 && !slices.ContainsFunc(s.Flows, troubled) {
		return
	}
	all := w.of.table.Snapshot()
	w.verdicts = slices.DeleteFunc(triage.Explain(all), func(v triage.Verdict) bool { return v.Until.Before(w.from) })
}

// rememberSilent keeps flows that were in trouble and have no packets now.
func (w *watch) rememberSilent(s *flows.Snapshot) {
	for i := range s.Flows {
		delete(w.remembered, s.Flows[i].FlowKey)
	}
	maps.DeleteFunc(w.remembered, func(_ rocev2.FlowKey, f flows.Flow) bool {
		silence := w.to.Sub(f.Last)
		return silence > rememberTime || silence < 0 // or the clock has jumped
	})
	w.silent = slices.Collect(maps.Values(w.remembered))
	for i := range s.Flows {
		if f := &s.Flows[i]; f.Trouble() > 0 && len(w.remembered) < maxRemembered {
			w.remembered[f.FlowKey] = *f
		}
	}
}

// draw draws the last output again, in the present size of the terminal.
func (w *watch) draw() error {
	var err error
	if w.terminal == nil {
		_, err = w.out.Write(append([]byte(w.separator), w.formatBlock(columns, 0)...))
		w.separator = "\n"
	} else {
		width, height := w.terminal.Size()
		err = w.terminal.Frame(w.formatBlock(width, height))
	}
	return cli.Output(err)
}
