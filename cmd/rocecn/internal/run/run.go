// Package run implements `rocecn run`, the agent that plays roles on real interfaces, and `rocecn check`, which
// checks its configuration.
//
//	rocecn run -config FILE [-dry-run]
//	rocecn check -config FILE [-system]
//
// The roles behave as in `rocecn play`. SIGHUP reads the file again; an invalid file changes nothing. SIGTERM ends
// the agent after it has sent the packets that are already decided.
package run

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
)

//go:embed reference.toml
var reference string

const runUsage = `usage: rocecn run -config FILE [-dry-run]
       rocecn run -reference
Plays the enabled roles of the file, until SIGTERM or the end of all sources. SIGHUP reloads the configuration, SIGUSR1
logs the status.
`

// Run runs the command run and returns its exit status.
func Run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) (status int) {
	flags := cli.Flags("run", runUsage, stderr)
	name := flags.String("config", "", "configuration, a TOML `file`")
	dry := flags.Bool("dry-run", false, "print each decision, as rocecn play does, and send nothing")
	print := flags.Bool("reference", false,
		"print a sample configuration with all keys of sources and sinks and their defaults (keys of roles: "+
			"docs/roles)")
	switch others, err := cli.Parse(flags, args); {
	case err != nil:
		return cli.Unparsed(err)
	case *print && len(others) == 0:
		_, err := io.WriteString(stdout, reference)
		return cli.End(stderr, "run", err)
	case len(others) > 0 || *name == "":
		flags.Usage()
		return cli.Misused
	}
	f, err := readFile(ctx, *name)
	if errors.Is(err, context.Canceled) {
		return 0
	} else if err != nil {
		cli.PrintError(stderr, "run", "-config "+*name, err)
		return cli.Misused
	}
	s := &server{name: *name, dry: *dry, stderr: stderr, log: newLogger(&f.agent, stderr), wake: make(chan struct{}, 1)}
	if s.dry {
		s.lines = bufio.NewWriterSize(stdout, 64<<10)
	}
	if s.notify, err = newNotifier(); err != nil {
		s.log.Warn("systemd cannot be notified", "error", err)
	}
	if err := s.run(ctx, f); err != nil && !cli.Closed(err) {
		s.log.Error("the agent failed", "error", err)
		return cli.Failed
	}
	if s.failed.Load() {
		return cli.Failed
	}
	return 0
}

// newLogger returns the logger that the file configures. Under systemd it omits the time, which the journal adds.
func newLogger(c *agentConfig, w io.Writer) *slog.Logger {
	var o slog.HandlerOptions
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Log.Level)) // checked before; empty means info
	o.Level = level
	if os.Getenv("JOURNAL_STREAM") != "" {
		o.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	if c.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, &o))
	}
	return slog.New(slog.NewTextHandler(w, &o))
}

// run plays the roles until ctx ends, all sources have ended, or a source or sink fails for good.
func (s *server) run(ctx context.Context, f *file) error {
	hup, usr1, stop := watchSignals() // before the agent is visible to others
	defer stop()
	f.linkTables(nil, s.currentLog)
	opened, err := s.openNewResources(f)
	if err != nil {
		return err
	}
	if opened.listener, err = s.listenHTTP(f); err != nil {
		opened.close()
		return err
	}
	s.reloaded.good, s.reloaded.at = true, time.Now() // applyFile serves HTTP, which reads it
	if err := s.applyFile(f, opened); err != nil {
		return err
	}
	defer s.close()
	s.logWarnings()
	s.startWorkers(ctx)
	stopping := ctx.Done()
	beat := time.NewTicker(housekeepingInterval)
	defer beat.Stop()
	fed := time.Now()
	for {
		select {
		case <-stopping:
		case <-hup:
			s.reloadFile(ctx)
		case <-usr1:
			s.logStatus()
		case <-s.wake:
		case <-beat.C:
		}
		if stopping != nil && ctx.Err() != nil { // also if the workers ended first
			stopping = nil
			s.notify.sendState("STOPPING=1")
		}
		s.maintainKernels(time.Now())
		s.maintainBorder(time.Now())
		ended, err := s.haveWorkersEnded()
		switch err = cmp.Or(err, s.flushLines()); {
		case err != nil:
			s.haltWorkers()
			return err
		case ended && (len(s.workers) > 0 || ctx.Err() != nil):
			return nil
		}
		if !s.ready && s.findMissing() == "" {
			s.ready = true
			s.notify.sendState("READY=1")
			s.log.Info("ready", "roles", len(s.actors), "sources", s.countInputs())
		}
		if w := s.notify.watchdog; w > 0 && time.Since(fed) >= w {
			fed = time.Now()
			s.feedWatchdog()
		}
	}
}

const checkUsage = `usage: rocecn check -config FILE [-system]
Reports errors in a configuration of rocecn run, and everything that the agent could not do with it.
`

// Check runs the command check and returns its exit status, 0 if the file is valid.
func Check(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := cli.Flags("check", checkUsage, stderr)
	name := flags.String("config", "", "configuration, a TOML `file`")
	system := flags.Bool("system", false, "also open all sources and sinks; sends nothing")
	switch others, err := cli.Parse(flags, args); {
	case err != nil:
		return cli.Unparsed(err)
	case len(others) > 0 || *name == "":
		flags.Usage()
		return cli.Misused
	}
	f, err := readFile(ctx, *name)
	if errors.Is(err, context.Canceled) {
		return cli.Failed
	} else if err != nil {
		cli.PrintError(stderr, "check", "-config "+*name, err)
		return cli.Misused
	}
	warnings, err := f.listWarnings(), error(nil)
	if *system {
		var ofSystem []string
		ofSystem, err = f.tryAll(ctx)
		warnings = slices.Concat(warnings, f.listQueueWarnings(), ofSystem)
	}
	for _, warning := range warnings {
		fmt.Fprintln(stderr, "rocecn check: warning:", warning)
	}
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprint(stderr, "rocecn check: ", strings.TrimSuffix(line, "\n"), "\n")
		}
		return cli.Failed
	}
	_, err = io.WriteString(stdout, f.formatSummary())
	return cli.End(stderr, "check", err)
}

// visitUsed calls source and sink for the entries that roles use, and returns the names of the unused entries.
func (f *file) visitUsed(source func(*sourceEntry), sink func(*sinkEntry)) (idle []string) {
	names, ports := map[string]bool{}, map[string]bool{}
	for _, r := range f.roles {
		for _, name := range slices.Concat(r.Agent.Sources, r.Agent.Observe) {
			if f.isKernelSource(&r.Agent, name) {
				ports["source."+name] = true
			} else {
				names["source."+name] = true
			}
		}
		names["sink."+r.Agent.Sink] = true
	}
	for _, name := range sortedKeys(f.sources) {
		if full := "source." + name; names[full] {
			source(f.sources[name])
		} else if !ports[full] {
			idle = append(idle, full)
		}
	}
	for _, name := range sortedKeys(f.sinks) {
		if full := "sink." + name; names[full] {
			sink(f.sinks[name])
		} else {
			idle = append(idle, full)
		}
	}
	return idle
}

// formatSummary returns the roles that would run and the capabilities that they need.
func (f *file) formatSummary() string {
	var b strings.Builder
	needs := map[string]bool{}
	add := func(all []string) {
		for _, n := range all {
			needs[n] = true
		}
	}
	add(f.agent.requiredCapabilities())
	idle := f.visitUsed(func(s *sourceEntry) { add(s.source.requiredCapabilities()) },
		func(s *sinkEntry) { add(s.sink.requiredCapabilities()) })
	for _, r := range f.roles {
		_, inKernel := f.kernels[r.Name]
		if r.Agent.Install == "nft" || inKernel {
			needs["CAP_NET_ADMIN"] = true
		}
		if inKernel {
			needs["CAP_BPF"] = true
		}
		if r.Agent.Mode == "kernel" && r.Role == "switch" {
			needs["CAP_PERFMON"] = true
		}
		var does []string
		if from := slices.Concat(r.Agent.Sources, r.Agent.Observe); len(from) > 0 {
			does = append(does, "from "+strings.Join(from, ", "))
		}
		if r.Agent.Sink != "" {
			does = append(does, "to "+r.Agent.Sink)
		}
		if r.Agent.Install == "nft" {
			does = append(does, "by nftables at "+cmp.Or(strings.Join(r.Agent.Interfaces, ", "), "all interfaces"))
		}
		fmt.Fprintf(&b, "role.%s: %s\n", r.Name, strings.Join(does, " "))
		b.WriteString(f.formatPairs(r))
		b.WriteString(f.formatKernelSummary(r))
	}
	if len(f.roles) == 0 {
		b.WriteString("no role is on\n")
	} else if len(idle) > 0 {
		fmt.Fprintf(&b, "not used: %s\n", strings.Join(idle, ", "))
	}
	if len(needs) > 0 {
		fmt.Fprintf(&b, "AmbientCapabilities=%s\n", strings.Join(sortedKeys(needs), " "))
	}
	return b.String()
}
