//go:build linux

// Tool measures the commands of rocecn that read whole captures: a million
// frames (726 MB) from the page cache, beside reading the file at all, by cat,
// and tshark with four fields where that is installed.
//
//	go run ./tools/bench/tool [-runs 11] [CAPTURE]
//
// Without a capture it makes one. The commands take turns, but for tshark, which
// runs once. A line is the median of a command's seconds, how many times that of
// cat it is, and the most memory of all runs.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

func main() {
	runs := flag.Int("runs", 11, "how often each command runs")
	flag.Parse()
	if flag.NArg() > 1 || *runs < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := measure(flag.Arg(0), *runs); err != nil {
		fmt.Fprintln(os.Stderr, "tool:", err)
		os.Exit(1)
	}
}

// A command is one that is measured.
type command struct {
	text    string // for people
	args    []string
	seconds []float64
	memory  int64 // the most, KiB
}

func measure(capture string, runs int) error {
	dir, err := os.MkdirTemp("", "rocecn")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rocecn := filepath.Join(dir, "rocecn")
	if err := quietly("go", "build", "-o", rocecn, "./cmd/rocecn"); err != nil {
		return err
	}
	if capture == "" {
		capture = filepath.Join(dir, "million.pcap")
		if err := quietly("go", "run", "./tools/bench/flows", "-frames", "1000000", capture); err != nil {
			return err
		}
	}

	commands := []*command{
		{text: "cat FILE", args: []string{"cat"}},
		{text: "rocecn flows FILE", args: []string{rocecn, "flows"}},
		{text: "rocecn flows -workers 1 FILE", args: []string{rocecn, "flows", "-workers", "1"}},
		{text: "rocecn flows -workers 2 FILE", args: []string{rocecn, "flows", "-workers", "2"}},
		{text: "rocecn flows -no-icrc FILE", args: []string{rocecn, "flows", "-no-icrc"}},
		{text: "taskset 1 rocecn inspect -json FILE", args: []string{"taskset", "1", rocecn, "inspect", "-json"}},
		{text: "taskset 1 rocecn inspect FILE", args: []string{"taskset", "1", rocecn, "inspect"}},
	}
	if err := commands[0].run(capture); err != nil { // it is in the page cache from here on
		return err
	}
	commands[0].seconds = nil
	for range runs {
		for _, c := range commands {
			if err := c.run(capture); err != nil {
				return err
			}
		}
	}
	if _, err := exec.LookPath("tshark"); err == nil {
		c := &command{text: "tshark -T fields, four of them, -r FILE", args: []string{"tshark", "-T", "fields",
			"-e", "frame.time_epoch", "-e", "infiniband.bth.destqp", "-e", "infiniband.bth.psn", "-e",
			"infiniband.bth.opcode", "-r"}}
		if err := c.run(capture); err != nil {
			return err
		}
		commands = append(commands, c)
	}

	fmt.Print("| command | s | of cat | MiB |\n|---|--:|--:|--:|\n")
	for _, c := range commands {
		fmt.Printf("| `%s` | %.3f | %.2f | %d |\n", c.text, c.median(), c.median()/commands[0].median(), c.memory>>10)
	}
	return nil
}

// run measures the command once.
func (c *command) run(capture string) error {
	cmd := exec.Command(c.args[0], append(c.args[1:], capture)...)
	began := time.Now()
	if err := cmd.Run(); err != nil { // its output goes to the null device
		return fmt.Errorf("%s: %w", c.text, err)
	}
	c.seconds = append(c.seconds, time.Since(began).Seconds())
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.memory = max(c.memory, int64(usage.Maxrss))
	}
	return nil
}

func (c *command) median() float64 {
	sorted := slices.Sorted(slices.Values(c.seconds))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// quietly runs a command of which only errors are of interest.
func quietly(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}
