//go:build unix

// Command growth measures how the time and memory of rocecn flows grow with frames and connections. It prints two
// tables in Markdown. It writes captures of up to 8 GB to a temporary folder.
//
//	go -C tools run ./bench/growth
//	go -C tools run ./bench/growth -max-frames 100000 -max-connections 1000 -runs 1    # a short run
//
// Each command runs in turn with the others, so that other load of the machine affects all of them. The slope is the
// logarithm of the ratio of two times, divided by that of the ratio of their sizes: 1 is linear growth.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	maxFrames := flag.Int("max-frames", 10_000_000, "largest number of frames")
	maxConnections := flag.Int("max-connections", 1_000_000, "largest number of connections")
	runs := flag.Int("runs", 5, "number of runs of each command; a third of it with more than 1,000,000 frames")
	flag.Parse()
	if err := measureGrowth(*maxFrames, *maxConnections, *runs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// measureGrowth prints both tables.
func measureGrowth(maxFrames, maxConnections, runs int) error {
	folder, err := os.MkdirTemp("", "growth")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	m := &machine{folder: folder, tool: filepath.Join(folder, "rocecn"), generator: filepath.Join(folder, "generate")}
	for _, b := range []struct{ name, dir, path string }{
		{m.tool, "..", "./cmd/rocecn"}, {m.generator, ".", "./bench/flows"},
	} {
		build := exec.Command("go", "build", "-o", b.name, b.path)
		build.Dir = b.dir
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", b.path, err, out)
		}
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%s, %d CPUs, %s, load %s\n", runtime.GOARCH, runtime.NumCPU(), time.Now().Format(time.DateOnly),
		strings.TrimSpace(string(load)))
	fmt.Print("\nFrames of 726 octets, 64 connections:\n\n")
	printHeader("frames")
	var before *row
	for frames := 100_000; frames <= maxFrames; frames *= 10 {
		if before, err = m.measure(frames, runs, before, frames, 64, 692, 16); err != nil {
			return err
		}
	}
	fmt.Print("\n8 frames of each connection at least, messages of one frame, 1,000,000 frames at least:\n\n")
	printHeader("connections")
	before = nil
	for n := 100; n <= maxConnections; n *= 10 {
		if before, err = m.measure(n, runs, before, max(1_000_000, 8*n), n, 32, 1); err != nil {
			return err
		}
	}
	return nil
}

// A machine has the commands that are measured.
type machine struct{ folder, tool, generator string }

// A row is a line of a table: medians.
type row struct {
	size   float64
	frames int
	cat    usage
	one    usage // flows on one CPU
	all    usage // flows on all CPUs
}

// A usage is the time and memory that a process took.
type usage struct {
	cpu, wall float64 // seconds
	rss       float64 // MB
}

func printHeader(size string) {
	fmt.Printf("| %s | `cat`: s | 1 CPU: CPU s | of `cat` | slope |", size)
	fmt.Println(" all CPUs: s | of `cat` | of 1 CPU | RSS, MB |")
	fmt.Println("|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
}

// measure measures a capture with these frames and connections, and prints a line.
func (m *machine) measure(size, runs int, before *row, frames, connections, payload, message int) (*row, error) {
	name := filepath.Join(m.folder, "capture.pcap")
	defer os.Remove(name)
	generate := exec.Command(m.generator, "-frames", strconv.Itoa(frames), "-connections", strconv.Itoa(connections),
		"-payload", strconv.Itoa(payload), "-message", strconv.Itoa(message), name)
	if out, err := generate.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	if frames > 1_000_000 {
		runs = (runs + 2) / 3
	}
	count := []string{m.tool, "flows", "-json", "-max-flows", strconv.Itoa(4 * max(connections, 1<<17)), name}
	var cat, one, all []usage
	for range runs {
		for _, c := range []struct {
			to   *[]usage
			cpus int
			args []string
		}{{&cat, 1, []string{"cat", name}}, {&one, 1, count}, {&all, runtime.NumCPU(), count}} {
			u, err := run(c.cpus, c.args)
			if err != nil {
				return nil, err
			}
			*c.to = append(*c.to, u)
		}
	}
	r := &row{size: float64(size), frames: frames, cat: median(cat), one: median(one), all: median(all)}
	slope := ""
	if before != nil {
		// The number of frames is not the same for the largest numbers of flows.
		more := float64(r.frames) / float64(before.frames)
		if r.size/before.size == more {
			more = 1
		}
		slope = fmt.Sprintf("%.2f", math.Log(r.one.cpu/before.one.cpu/more)/math.Log(r.size/before.size))
	}
	fmt.Printf("| %d | %.3f | %.3f | %.2f | %s | %.3f | %.2f | %.2f | %.0f |\n", size, r.cat.wall, r.one.cpu,
		r.one.cpu/r.cat.cpu, slope, r.all.wall, r.all.wall/r.cat.wall, r.all.wall/r.one.wall, r.all.rss)
	return r, nil
}

// run runs a command on so many CPUs, and returns its time and memory.
func run(cpus int, args []string) (usage, error) {
	c := exec.Command(args[0], args[1:]...)
	c.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(cpus))
	begin := time.Now()
	if err := c.Run(); err != nil {
		return usage{}, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	p := c.ProcessState
	u := usage{cpu: (p.UserTime() + p.SystemTime()).Seconds(), wall: time.Since(begin).Seconds()}
	if r, ok := p.SysUsage().(*syscall.Rusage); ok {
		u.rss = float64(r.Maxrss) / 1000
	}
	return u, nil
}

// median returns the medians of each field.
func median(all []usage) (m usage) {
	for _, field := range []func(*usage) *float64{
		func(u *usage) *float64 { return &u.cpu }, func(u *usage) *float64 { return &u.wall },
		func(u *usage) *float64 { return &u.rss },
	} {
		var values []float64
		for i := range all {
			values = append(values, *field(&all[i]))
		}
		slices.Sort(values)
		*field(&m) = values[len(values)/2]
	}
	return m
}
