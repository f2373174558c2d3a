// Command rocelab runs the laboratory: networks in which the congestion signals of RoCEv2 are real octets.
//
//	rocelab run FILE…     run scenarios, and print the measurements
//	rocelab run NAME…     run experiments: C1, C2 and so on, quick, all
//	rocelab merge FILE…   merge the results of shares of experiments
//	rocelab check [ID…]   compare the laboratory with independent results
//	rocelab version       print the version
//
// An interrupt ends the runs; the results so far are printed, with a list of the missing ones. The exit status is then
// 130. It is 1 if something failed or a check is wrong, 2 if the arguments are wrong.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rocecn/rocecn/internal/build"
	"github.com/rocecn/rocecn/lab/check"
	"github.com/rocecn/rocecn/lab/experiment"
	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/rocecn/rocecn/lab/sim"
)

const (
	failed      = 1
	misused     = 2
	interrupted = 128 + 2 // by SIGINT, as shells have it
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program
	os.Exit(runCommand(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const usage = `Runs networks in which the congestion signals of RoCEv2 are real octets.

usage: rocelab run [-json] [-variants LIST] [-messages CSV] [-series CSV] FILE…
                                    run scenarios; - is standard input
       rocelab run [-json] [-html PAGE] [-quick] [-seeds N] [-cases REGEXP] [-share I/N] [-results FILE] NAME…
                                    run experiments: C1 and so on, quick, all, time, checks
       rocelab merge [-json] [-html PAGE] FILE…
                                    merge the results of shares of experiments
       rocelab check [-quick] [ID…] compare the laboratory with independent results
       rocelab version              print the version

docs/laboratory.md describes scenarios, docs/results.md the experiments.
`

// runCommand is main with everything that it touches as an argument.
func runCommand(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return misused
	}
	switch args[0] {
	case "run":
		return runScenario(ctx, args[1:], stdin, stdout, stderr)
	case "check":
		return runChecks(ctx, args[1:], stdout, stderr)
	case "merge":
		return mergeResults(args[1:], stdin, stdout, stderr)
	case "-h", "-help", "--help", "help":
		fmt.Fprint(stdout, usage)
		return 0
	case "-version", "--version", "version":
		fmt.Fprint(stdout, build.Read().Line("rocelab"))
		return 0
	}
	fmt.Fprintf(stderr, "rocelab: %s is no command; rocelab -h lists them\n", args[0])
	return misused
}

// newFlags returns a set of flags that prints the usage.
func newFlags(name string, stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { fmt.Fprint(stderr, usage) }
	return f
}

func exitStatus(err error) int {
	if err == flag.ErrHelp {
		return 0
	}
	return misused
}

// runScenario runs scenarios or experiments.
func runScenario(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	f := newFlags("run", stderr)
	o := options{outputs: outputsOf(f)}
	f.BoolVar(&o.quick, "quick", false, "experiments at a small size")
	f.IntVar(&o.seeds, "seeds", 0, "seeds of experiments")
	f.StringVar(&o.share, "share", "", "which share of the cases, as in 2/8")
	f.StringVar(&o.cases, "cases", "", "run only the cases of experiments that match this `regexp`")
	f.StringVar(&o.variants, "variants", "", "run only these variants of scenarios, as in cnp,fastcnp")
	f.StringVar(&o.messages, "messages", "", "write a line for each message of a scenario to this CSV `file`")
	f.StringVar(&o.series, "series", "", "run a scenario again, and write 200 intervals of it to this CSV `file`")
	f.StringVar(&o.state, "results", "",
		"write the results to this `file` after each case; omit the cases in it, and keep others")
	if err := f.Parse(args); err != nil {
		return exitStatus(err)
	}
	if f.NArg() == 0 {
		fmt.Fprint(stderr, usage)
		return misused
	}
	named := 0
	for _, name := range f.Args() {
		if _, err := experiment.Chosen([]string{name}); err == nil {
			named++
		}
	}
	switch {
	case named > 0 && o.variants+o.messages+o.series != "":
		fmt.Fprintln(stderr, "rocelab run: -variants, -messages and -series: want scenarios, not experiments")
		return misused
	case f.NArg() > 1 && o.messages+o.series != "":
		fmt.Fprintln(stderr, "rocelab run: -messages and -series: want one scenario")
		return misused
	case named == f.NArg():
		return o.runExperiments(ctx, f.Args(), stdout, stderr)
	case named > 0:
		fmt.Fprintln(stderr, "rocelab run: scenarios and experiments are run apart")
		return misused
	case o.page != "" || o.quick || o.seeds != 0 || o.share != "" || o.state != "" || o.cases != "":
		fmt.Fprintln(stderr, "rocelab run: -html, -quick, -seeds, -cases, -share and -results are for "+
			"experiments: "+strings.Join(experiment.IDs(), ", ")+", quick and all")
		return misused
	}
	var all []*scenario.Scenario // wrong ones are said before the first runs
	for _, name := range f.Args() {
		text, err := readInput(name, stdin)
		if err != nil {
			fmt.Fprintf(stderr, "rocelab run: %v\n", err)
			return failed
		}
		s, err := scenario.Read(text)
		if err != nil {
			fmt.Fprintf(stderr, "rocelab run: %s: %v\n", name, err)
			return failed
		}
		if err := s.KeepVariants(o.variants); err != nil {
			fmt.Fprintf(stderr, "rocelab run: %s: -variants: %v\n", name, err)
			return misused
		}
		all = append(all, s)
	}
	for i, s := range all {
		p := newProgress(stderr)
		s.KeepMessages = o.messages != ""
		results, err := s.Run(ctx, func(share float64) { p.printText(fmt.Sprintf("%s: %.0f %%", f.Arg(i), share*100)) })
		if err == nil && o.json {
			err = printJSON(stdout, s, results)
		} else if err == nil {
			err = s.Print(stdout, results)
		}
		if err == nil && o.messages != "" {
			err = writeMessages(o.messages, results)
		}
		if err == nil && o.series != "" && ctx.Err() == nil {
			if err = writeSeries(ctx, o.series, s); ctx.Err() != nil {
				err = nil // reported below
			}
		}
		if err != nil {
			fmt.Fprintf(stderr, "rocelab run: %s: %v\n", f.Arg(i), err)
			return failed
		}
		if ctx.Err() != nil {
			whole := 0
			for j := range results {
				if results[j].Ended == sim.Time(s.Duration) {
					whole++
				}
			}
			fmt.Fprintf(stderr, "rocelab run: interrupted; %s: %d of %d runs ended", f.Arg(i), whole,
				len(s.Variants)*len(s.Seeds))
			if i+1 < len(all) {
				fmt.Fprintf(stderr, "; missing: %s", strings.Join(f.Args()[i+1:], ", "))
			}
			fmt.Fprintln(stderr)
			return interrupted
		}
	}
	return 0
}

func readInput(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}

// printJSON prints a line for each run.
func printJSON(w io.Writer, s *scenario.Scenario, results []scenario.Result) error {
	type metric struct {
		Name  string  `json:"name"`
		Unit  string  `json:"unit,omitempty"`
		Value float64 `json:"value"`
	}
	short, err := experiment.Short(s)
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	for i := range results {
		r := &results[i]
		line := struct {
			Name     string             `json:"name,omitempty"`
			Line     string             `json:"line"`
			Topology scenario.Topology  `json:"topology"`
			Traffic  []scenario.Traffic `json:"traffic"`
			Scenario json.RawMessage    `json:"scenario"` // all of it that is not as by default
			Duration scenario.Time      `json:"duration"`
			Warmup   scenario.Time      `json:"warmup"`
			Variant  string             `json:"variant"`
			Seed     uint64             `json:"seed"`
			Ended    float64            `json:"ended_us"`
			Whole    bool               `json:"whole"` // not interrupted
			Port     string             `json:"deepest_queue"`
			Print    string             `json:"fingerprint"`
			Events   uint64             `json:"events"`
			Metrics  []metric           `json:"metrics"`
		}{s.Name, s.Line(r.Variant), s.Topology, s.Traffic, short, s.Duration, s.Warmup, r.Variant.String(), r.Seed,
			r.Ended.Seconds() * 1e6, r.Ended == sim.Time(s.Duration), r.Port, fmt.Sprintf("%016x", r.Print),
			r.Events, nil}
		for _, m := range scenario.Metrics() {
			if x := m.Of(r); !math.IsNaN(x) && !math.IsInf(x, 0) {
				line.Metrics = append(line.Metrics, metric{m.Name, m.Unit, x})
			}
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// runChecks runs checks, and prints their table.
func runChecks(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := newFlags("check", stderr)
	quick := f.Bool("quick", false, "only those that take a second or so")
	if err := f.Parse(args); err != nil {
		return exitStatus(err)
	}
	var chosen []check.Check
	for _, c := range check.All() {
		if (f.NArg() == 0 || slices.Contains(f.Args(), c.ID)) && (c.Quick || !*quick) {
			chosen = append(chosen, c)
		}
	}
	for _, id := range f.Args() {
		if !slices.ContainsFunc(check.All(), func(c check.Check) bool { return c.ID == id }) {
			fmt.Fprintf(stderr, "rocelab check: %s is no check\n", id)
			return misused
		}
	}
	p := newProgress(stderr)
	done := 0
	rows, err := check.Run(ctx, chosen, func(c check.Check, ended bool) {
		if ended {
			done++
		}
		p.printText(fmt.Sprintf("%d of %d checks done; %s, %s", done, len(chosen), c.ID, c.Title))
	})
	if printed := check.Print(stdout, rows); printed != nil {
		return failed
	}
	if err != nil && !errors.Is(err, ctx.Err()) {
		fmt.Fprintf(stderr, "rocelab check: %v\n", err)
		return failed
	}
	wrong := 0
	for i := range rows {
		if !rows[i].OK() {
			wrong++
		}
	}
	if wrong > 0 {
		fmt.Fprintf(stderr, "rocelab check: %d of %d rows are wrong\n", wrong, len(rows))
		return failed
	}
	if missing := check.Missing(chosen, rows); len(missing) > 0 {
		fmt.Fprintf(stderr, "rocelab check: interrupted; missing: %s\n", strings.Join(missing, "; "))
		return interrupted
	}
	return 0
}

// progress prints the progress of a long run: after 3 s, then after twice as long each time, up to half a minute.
type progress struct {
	w    io.Writer
	pace time.Duration
	next time.Time
}

func newProgress(w io.Writer) *progress {
	const pace = 3 * time.Second
	return &progress{w, pace, time.Now().Add(pace)}
}

func (p *progress) printText(text string) {
	if now := time.Now(); now.After(p.next) {
		fmt.Fprintln(p.w, text)
		p.pace = min(2*p.pace, 30*time.Second)
		p.next = now.Add(p.pace)
	}
}
