// Package host is the command that records the counters of a host: those of its RDMA devices, the pauses of its
// interfaces, and the program of each queue pair. A capture shows the packets on the wire; these counters show their
// processing in the card.
package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/programs"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/rdma"
)

const usage = `usage: rocecn host [-interval TIME] [-count N]
       rocecn host -root DIR [-root DIR …]
Records the counters of this host for rocecn flows -host, one line of JSON for each observation: counters of its RDMA
devices, pauses of their interfaces (by the program ethtool), and the queue pairs of each program (by the program rdma).
With -root, it reads the files recorded on another machine:
  DIR/time            time of the recording: output of date -u +%FT%TZ
  DIR/hostname        name of the machine; by default that of the folder
  DIR/sys/class/infiniband
                      copy of /sys/class/infiniband
  DIR/ethtool/NAME    output of ethtool -S NAME
  DIR/rdma/qp         output of rdma resource show qp

`

const (
	maxQPs    = 65536
	maxOutput = 16 << 20 // limit for the output of ethtool, in octets
)

// Run is the command: it returns the exit status.
func Run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := cli.Flags("host", usage, stderr)
	var roots []string
	flags.Func("root",
		"read `DIR`, recorded on another machine, instead of this one; may be repeated, in order of time",
		func(dir string) error {
			roots = append(roots, dir)
			return nil
		})
	interval := flags.Duration("interval", 0, "observe at this `interval`, such as 1s, until interrupted")
	count := flags.Int("count", 0, "observe `N` times (0: once; with -interval without limit)")
	others, err := cli.Parse(flags, args)
	switch {
	case err != nil:
		return cli.Unparsed(err)
	case len(others) > 0:
		return cli.Misuse(stderr, "host", fmt.Errorf("argument %q: want only flags", others[0]))
	case *interval < 0:
		return cli.Misuse(stderr, "host", fmt.Errorf("-interval %v: want 0s or more", *interval))
	case *count < 0:
		return cli.Misuse(stderr, "host", fmt.Errorf("-count %d: want 0 or more", *count))
	case *count > 1 && *interval == 0:
		return cli.Misuse(stderr, "host", fmt.Errorf("-count %d: want -interval as well", *count))
	case len(roots) > 0 && (*interval > 0 || *count > 0):
		return cli.Misuse(stderr, "host", errors.New("-root: cannot be combined with -interval or -count"))
	}
	out := cli.NewJSON(stdout)
	for _, dir := range roots {
		o, err := readRecorded(dir)
		if err != nil {
			cli.PrintError(stderr, "host", dir, err)
			return cli.Failed
		}
		if err := out.Encode(o); err != nil {
			return cli.End(stderr, "host", err)
		}
	}
	if len(roots) > 0 {
		return 0
	}
	if err := observeHost(ctx, out, stderr, *interval, *count); err != nil {
		return cli.End(stderr, "host", err)
	}
	return 0
}

// observeHost writes observations of this host: one, or one each interval.
func observeHost(ctx context.Context, out *json.Encoder, stderr io.Writer, interval time.Duration, count int) error {
	if interval == 0 {
		count = 1
	}
	ticks := time.NewTicker(cmp.Or(interval, time.Hour))
	defer ticks.Stop()
	printed := map[string]bool{}
	for n := 1; ; n++ {
		o, err := observeLive(ctx)
		if err != nil || ctx.Err() != nil { // an interrupt ends the programs that were asked, too
			return err
		}
		for _, text := range o.Missing {
			if !printed[text] && len(printed) < 100 {
				printed[text] = true
				fmt.Fprintln(stderr, "rocecn host:", cli.Printable(text))
			}
		}
		if err := out.Encode(o); err != nil {
			return err
		}
		if n == count {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// observeLive observes this host.
func observeLive(ctx context.Context) (*Observation, error) {
	root, err := os.OpenRoot("/")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	o := &Observation{Time: time.Now().UTC(), Host: name}
	o.readCounters(root.FS(), func(name string) (string, error) { return runEthtool(ctx, name) })
	o.Until = time.Now().UTC()
	o.readQPs(func() (string, error) { return rdma.QueuePairs(ctx) })
	return o, nil
}

// readRecorded reads the recorded files of a machine. It does not follow links that lead out of the folder.
func readRecorded(dir string) (*Observation, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files := root.FS()
	text, ok := readValue(files, "time")
	if !ok {
		return nil, errors.New("time: no such file: want the time of the recording: date -u +%FT%TZ >time")
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, fmt.Errorf("time: %w", err)
	}
	name, _ := readValue(files, "hostname")
	o := &Observation{Time: t.UTC(), Host: cmp.Or(name, dir)}
	o.readCounters(files, func(name string) (string, error) { return readFile(files, "ethtool/"+name, maxOutput) })
	o.readQPs(func() (string, error) { return readFile(files, "rdma/qp", maxOutput) })
	return o, nil
}

// readCounters reads ports and the pauses of their interfaces.
func (o *Observation) readCounters(root fs.FS, ethtool func(name string) (string, error)) {
	var u unreadable
	all, more := readPorts(root, &u)
	o.Ports, o.Interfaces = append([]Port{}, all...), []Interface{}
	o.Devices = readDevices(root, &u)
	if len(o.Ports) == 0 {
		o.Missing = append(o.Missing, "no RDMA device in /"+infiniband)
	}
	if more {
		o.Missing = append(o.Missing, fmt.Sprintf("RDMA devices beyond the first %d, or ports beyond the first %d",
			maxDevices, maxAllPorts))
	}
	o.Missing = append(o.Missing, u.texts...)
	for _, name := range readInterfaces(o.Ports) {
		text, err := ethtool(name)
		if err != nil {
			o.Missing = append(o.Missing, "pauses of "+name+": "+oneLine(err))
			continue
		}
		o.Interfaces = append(o.Interfaces, Interface{name, parsePauses(text)})
	}
}

// readQPs reads queue pairs.
func (o *Observation) readQPs(qps func() (string, error)) {
	o.QPs = []rdma.QueuePair{}
	text, err := qps()
	if err != nil {
		o.Missing = append(o.Missing, "queue pairs: "+oneLine(err))
		return
	}
	o.QPs = append(o.QPs, rdma.ParseQueuePairs(text, maxQPs)...)
	if len(o.QPs) == maxQPs {
		o.Missing = append(o.Missing, fmt.Sprintf("queue pairs beyond the first %d", maxQPs))
	}
}

// oneLine returns the text of an error, which in that of a file does not say how it was looked for.
func oneLine(err error) string {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", of.Path, of.Err)
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// runEthtool returns the output of the program ethtool for an interface.
func runEthtool(ctx context.Context, name string) (string, error) {
	ctx, cancel := programs.WithTimeout(ctx)
	defer cancel()
	cmd := programs.Command(ctx, "ethtool", "-S", name)
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", fmt.Errorf("ethtool: %w", context.Cause(ctx))
	} else if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return "", fmt.Errorf("ethtool: %w: %s", err, bytes.TrimSpace(exit.Stderr))
	} else if err != nil {
		return "", fmt.Errorf("ethtool: %w", err)
	}
	return string(out), nil
}
