// Bench puts what the laboratory's benchmarks measured into BENCHMARKS.md:
//
//	go test -run '^$' -bench . -count 5 ./lab/sim ./lab ./lab/scenario ./node/reaction | tee lab.txt
//	go run ./bench/lab -w BENCHMARKS.md lab.txt
//
// A cell is the median of the runs. Events, hops and s are by time of processors, ns by the clock.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// columns are the units of the table, in order.
var columns = []string{"Mevents/s", "Mhops/s", "s/op", "ns/op", "allocs/op"}

func main() {
	into := flag.String("w", "", "put the table into this file, between its lines <!-- lab --> and <!-- end lab -->")
	flag.Parse()
	if err := run(*into, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench/lab:", err)
		os.Exit(1)
	}
}

func run(into string, args []string, out io.Writer) error {
	in := io.Reader(os.Stdin)
	if len(args) > 0 {
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	text, err := table(in, time.Now())
	if err != nil || into == "" {
		fmt.Fprint(out, text)
		return err
	}
	old, err := os.ReadFile(into)
	if err != nil {
		return err
	}
	const begin, end = "<!-- lab -->\n", "<!-- end lab -->\n"
	head, rest, found := strings.Cut(string(old), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !found || !ends {
		return fmt.Errorf("%s: no lines <!-- lab --> and <!-- end lab -->", into)
	}
	return os.WriteFile(into, []byte(head+begin+text+end+tail), 0o644)
}

// table returns the table of what go test printed.
func table(in io.Reader, now time.Time) (string, error) {
	var names, machine []string
	runs := map[string]map[string][]float64{} // by benchmark and unit
	pkg := ""
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		switch key, value, _ := strings.Cut(lines.Text(), ": "); key {
		case "goos", "goarch", "cpu":
			if !slices.Contains(machine, value) {
				machine = append(machine, value)
			}
		case "pkg":
			pkg = strings.TrimPrefix(value, "github.com/rocecn/rocecn/")
		}
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if at := strings.LastIndexByte(name, '-'); at > strings.LastIndexByte(name, '/') { // GOMAXPROCS
			if _, err := strconv.Atoi(name[at+1:]); err == nil {
				name = name[:at]
			}
		}
		name = pkg + " | " + name
		if runs[name] == nil {
			names = append(names, name)
			runs[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return "", fmt.Errorf("%s: %w", lines.Text(), err)
			}
			runs[name][fields[i+1]] = append(runs[name][fields[i+1]], v)
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", fmt.Errorf("no benchmarks in the input")
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %d cores, %s, %s; medians of %d runs.\n\n", strings.Join(machine, ", "), runtime.NumCPU(),
		runtime.Version(), now.Format(time.DateOnly), len(runs[names[0]]["ns/op"]))
	fmt.Fprintf(&out, "| package | benchmark | %s |\n|---|---|%s\n", strings.Join(columns, " | "),
		strings.Repeat("--:|", len(columns)))
	for _, name := range names {
		fmt.Fprintf(&out, "| %s |", name)
		for _, unit := range columns {
			fmt.Fprintf(&out, " %s |", median(runs[name][unit]))
		}
		out.WriteString("\n")
	}
	return out.String(), nil
}

// median prints three digits of the median; nothing where there are no values.
func median(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	slices.Sort(values)
	m := (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	if m >= 1000 {
		return strconv.FormatFloat(m, 'f', 0, 64)
	}
	return strconv.FormatFloat(m, 'g', 3, 64)
}
