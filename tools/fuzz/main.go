// Fuzz runs the fuzz targets of packages for a time each, one after the other, and keeps the inputs
// that they find: inputs that fail go where go test puts them, testdata/fuzz of their package;
// inputs that reach new code stay in the build cache, and with -grow up to N of each target, the
// smallest first, are copied into the committed corpus.
//
//	tools/fuzz.sh [-t 20m] [-share I/N] [-parallel N] [-grow N] [-log FILE] [FOLDER …]
//	tools/fuzz.sh -total 20m -log FILE [-t 2m] [-for 1h] …
//	tools/fuzz.sh -summary FILE
//	tools/fuzz.sh -minimize [FOLDER …]
//
// -t is a time or, as 20000x, a number of inputs.
//
// -log appends a line for each run. -total continues at the end of the log: it runs the target that
// has had the least processor time, for -t, but not longer than the time that this target still
// lacks if -t is a time; then the next one, until each has had the total or the time of -for is
// over. So many hours can be done in portions, also on several machines at the same time if each
// takes a -share of the targets and a log of its own: such logs can be concatenated. -summary
// prints a log as a table.
//
// -minimize removes committed inputs that reach no code which smaller ones do not.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("fuzz: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runTargets(ctx); err != nil {
		stop()
		log.Fatal(err)
	}
}

// settings are the flags.
type settings struct {
	time     string
	total    time.Duration
	lasting  time.Duration
	share    string
	parallel int
	grow     int
	log      string
}

func runTargets(ctx context.Context) error {
	var s settings
	flag.StringVar(&s.time, "t", "20m", "run time of a target: a `time`, or a number of inputs as 20000x")
	flag.DurationVar(&s.total, "total", 0, "go on until each target has had this `time` of a processor by the log")
	flag.DurationVar(&s.lasting, "for", 0, "stop after this `time`")
	flag.StringVar(&s.share, "share", "1/1", "run one of N shares of the targets: `I/N`")
	flag.IntVar(&s.parallel, "parallel", 0, "number of inputs tried at a time: 0 for one a processor")
	flag.IntVar(&s.grow, "grow", 0, "copy up to `N` new inputs of each target into its corpus")
	flag.StringVar(&s.log, "log", "", "append a line for each run to this `file`")
	summary := flag.String("summary", "", "print the log in this `file` as a table")
	minimized := flag.Bool("minimize", false, "remove inputs from the corpora that reach no code of their own")
	flag.Parse()
	if *summary != "" {
		runs, err := readLog(*summary)
		if err != nil {
			return err
		}
		return writeSummary(os.Stdout, runs)
	}
	if s.total > 0 && s.log == "" {
		return errors.New("-total needs a -log")
	}
	folders := flag.Args()
	if len(folders) == 0 {
		folders = []string{"./...", "./lab/..."}
	}
	targets, err := listTargets(ctx, folders)
	if err != nil {
		return err
	}
	if targets, err = shareOf(targets, s.share); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if *minimized {
		return minimizeCorpora(ctx, targets, dir)
	}
	return fuzzTargets(ctx, targets, &s, dir)
}

// fuzzTargets runs the targets once each, or with -total as long as one has not had its time.
func fuzzTargets(ctx context.Context, targets []target, s *settings, dir string) error {
	if s.lasting > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.lasting)
		defer cancel()
	}
	commit, err := commandOutput(ctx, "git", "describe", "--always", "--dirty", "--exclude", "*")
	if err != nil {
		return err
	}
	var failed []string
	for ctx.Err() == nil && len(targets) > 0 {
		next, longest := 0, time.Duration(math.MaxInt64)
		if s.total > 0 {
			runs, err := readLog(s.log)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			var lacks time.Duration
			if next, lacks = leastFuzzed(targets, runs, s.total); next < 0 {
				break
			}
			// It takes this long at least; the last seconds are not worth a run each.
			longest = max(lacks/time.Duration(cmp.Or(s.parallel, runtime.GOMAXPROCS(0))), 5*time.Second)
		}
		t := targets[next]
		r, err := t.fuzzOnce(ctx, s, longest, dir)
		switch {
		case ctx.Err() != nil && err != nil: // the time was over before it began
			continue
		case err != nil:
			return err
		}
		r.commit = strings.TrimSpace(commit)
		if s.log != "" {
			if err := appendLog(s.log, r); err != nil {
				return err
			}
		}
		if s.grow > 0 {
			if err := t.growCorpus(s.grow); err != nil {
				return err
			}
		}
		if !r.ok {
			failed = append(failed, t.String())
		}
		if !r.ok || s.total == 0 { // a target that has failed would fail again immediately
			targets = append(targets[:next], targets[next+1:]...)
		}
	}
	if len(failed) > 0 {
		return errors.New("failed: " + strings.Join(failed, ", "))
	}
	return nil
}

// leastFuzzed returns the index of the target that has had the least time, and the time that it lacks; -1
// if each has had the total.
func leastFuzzed(targets []target, runs []record, total time.Duration) (next int, lacks time.Duration) {
	had := map[string]time.Duration{}
	for _, r := range runs {
		had[r.target] += r.processor
	}
	next = -1
	for i, t := range targets {
		if n := total - had[t.String()]; n > lacks {
			next, lacks = i, n
		}
	}
	return next, lacks
}

// shareOf returns the I-th of N shares.
func shareOf(targets []target, share string) (mine []target, err error) {
	var i, n int
	if _, err := fmt.Sscanf(share, "%d/%d", &i, &n); err != nil || i < 1 || i > n {
		return nil, fmt.Errorf("-share %s: not as 1/3", share)
	}
	for at, t := range targets {
		if at%n == i-1 {
			mine = append(mine, t)
		}
	}
	return mine, nil
}

// commandOutput runs a command and returns its output.
func commandOutput(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}
