// Bench measures the library side by side with what it is to be held against,
// and prints the tables of docs/BENCHMARKS.md, which has the commands that make them.
// The benchmarks are the tests of this folder and of some packages; the program
// reads their output:
//
//	go run ./tools/bench -w docs/BENCHMARKS.md new.txt
//
// With -section lab it prints the table of the laboratory's benchmarks instead:
//
//	go run ./tools/bench -section lab -w docs/BENCHMARKS.md lab.txt
//
// The sections no-avx512, avx512 and arm64 have tables like the first ones, of
// what tools/bench/no-avx512, tools/avx512 and tools/bench/arm64 print.
//
// A benchmark's name is Section/column/row. A cell is the median of its runs in
// nanoseconds, or of instructions, and how many times the median of the
// column's first row that is.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocecn/rocecn/tools/bench/internal/printed"
)

// ratios of medians of the same run, the ones to look at first.
var ratios = []struct{ what, of, to string }{
	{"walk of a CNP frame ÷ reader by hand", "Read/CNP/walk", "Read/CNP/by hand"},
	{"message.Decode ÷ walk and message, CNP", "Read/CNP/message.Decode", "Read/CNP/walk and message"},
	{"message.Decode ÷ walk and message, Fast CNP 1", "Read/Fast CNP 1/message.Decode",
		"Read/Fast CNP 1/walk and message"},
	{"message.Decode ÷ walk and message, Fast CNP 2", "Read/Fast CNP 2/message.Decode",
		"Read/Fast CNP 2/walk and message"},
	{"Fast CNP 1, walk and message ÷ walk", "Read/Fast CNP 1/walk and message", "Read/Fast CNP 1/walk"},
	{"Fast CNP 2, walk and message ÷ walk", "Read/Fast CNP 2/walk and message", "Read/Fast CNP 2/walk"},
	{"DecodingLayerParser, the frame's five layers ÷ walk", "Read/CNP/DecodingLayerParser", "Read/CNP/walk"},
	{"DecodingLayerParser, all our layers ÷ walk", "Read/CNP/DecodingLayerParser, all layers", "Read/CNP/walk"},
	{"CNP built ÷ its ICRC", "Build/CNP/AppendFor", "Build/CNP/ICRC"},
	{"Fast CNP 1 built ÷ its ICRC", "Build/Fast CNP 1/AppendFor", "Build/Fast CNP 1/ICRC"},
	{"Fast CNP 2 of 4 nodes built ÷ its ICRC", "Build/Fast CNP 2/AppendFor", "Build/Fast CNP 2/ICRC"},
	{"PPFC built ÷ its ICRC", "Build/PPFC/AppendFor", "Build/PPFC/ICRC"},
	{"ICRC ÷ hash/crc32, 76 octets", "ICRC/76 octets/icrc.Sum", "ICRC/76 octets/hash/crc32"},
	{"ICRC ÷ hash/crc32, 256 octets", "ICRC/256 octets/icrc.Sum", "ICRC/256 octets/hash/crc32"},
	{"ICRC ÷ hash/crc32, 1024 octets", "ICRC/1024 octets/icrc.Sum", "ICRC/1024 octets/hash/crc32"},
	{"ICRC ÷ hash/crc32, 4096 octets", "ICRC/4096 octets/icrc.Sum", "ICRC/4096 octets/hash/crc32"},
	{"trace of 3 nodes decoded, all fields read ÷ hash/crc32 over it", "IOAM/3 nodes/Cursor",
		"IOAM/3 nodes/hash/crc32"},
	{"Fast CNPs, 1 core ÷ 2 cores", "Batch/Fast CNP/1 core", "Batch/Fast CNP/2 cores"},
}

func main() {
	into := flag.String("w", "", "put the tables into this `file`, between <!-- SECTION --> and <!-- end SECTION -->")
	section := flag.String("section", "tables", "the `section`; lab has the laboratory's table, others those of bench")
	flag.Parse()
	if err := write(*into, *section, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func write(into, section string, args []string, out io.Writer) error {
	in := io.Reader(os.Stdin)
	if len(args) > 0 {
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	r, err := parse(in)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s, %s, %s; ", strings.Join(r.machine, ", "), runtime.Version(),
		time.Now().Format(time.DateOnly))
	if r.unit == instructions {
		text += "instructions an operation.\n"
	} else {
		text += fmt.Sprintf("%d cores, medians of %d runs.\n", runtime.NumCPU(), r.count())
	}
	if section == "lab" {
		text += r.lab()
	} else {
		text += r.ratios() + r.tables() + r.ways() + r.others()
	}
	if into == "" {
		_, err := fmt.Fprint(out, text)
		return err
	}
	return printed.Replace(into, section, text)
}

// results are what a run of the benchmarks printed, in its order.
type results struct {
	machine []string // goos, goarch, cpu
	names   []string // Section/column/row
	unit    string   // of the tables' cells
	printed.Runs
}

const (
	nanoseconds  = "ns/op"
	instructions = "instructions/op"
)

func parse(in io.Reader) (*results, error) {
	r := &results{unit: nanoseconds, Runs: printed.Runs{}}
	s := bufio.NewScanner(in)
	front := "@ "
	for s.Scan() {
		switch key, value, _ := strings.Cut(s.Text(), ": "); key {
		case "goos", "goarch", "cpu":
			if !slices.Contains(r.machine, value) {
				r.machine = append(r.machine, value)
			}
		case "pkg":
			front = "@" + strings.TrimPrefix(value, "github.com/rocecn/rocecn/") + " "
			if front == "@tools/bench " {
				front = ""
			}
		}
		name, err := r.Add(s.Text(), front)
		if err != nil {
			return nil, err
		}
		if name != "" && !slices.Contains(r.names, name) {
			r.names = append(r.names, name)
		}
		if r.Runs[name][instructions] != nil {
			r.unit = instructions
		}
	}
	if len(r.names) == 0 && s.Err() == nil {
		return nil, fmt.Errorf("no benchmarks in the input")
	}
	return r, s.Err()
}

// count is how often each benchmark ran, at least.
func (r *results) count() int {
	n := math.MaxInt
	for _, runs := range r.Runs {
		n = min(n, len(runs[nanoseconds]))
	}
	return n
}

func (r *results) ratios() string {
	var out strings.Builder
	out.WriteString("\n| ratio | |\n|---|--:|\n")
	for _, q := range ratios {
		of, ok := r.Median(q.of, r.unit)
		to, ok2 := r.Median(q.to, r.unit)
		if ok && ok2 {
			fmt.Fprintf(&out, "| %s | %.2f |\n", q.what, of/to)
		}
	}
	return out.String()
}

func (r *results) tables() string {
	var out strings.Builder
	for _, section := range r.parts("", 0) {
		r.table(&out, section, r.parts(section, 1), r.parts(section, 2),
			func(column, row string) string { return section + "/" + column + "/" + row })
	}
	return out.String()
}

// table prints a table of the benchmarks that name names, each beside that of
// the first row.
func (r *results) table(out *strings.Builder, title string, columns, rows []string,
	name func(column, row string) string) {
	fmt.Fprintf(out, "\n### %s\n\n| | %s |\n|---|%s\n", title, strings.Join(columns, " | "),
		strings.Repeat("--:|", len(columns)))
	for _, row := range rows {
		fmt.Fprintf(out, "| %s |", row)
		for _, column := range columns {
			fmt.Fprintf(out, " %s |", r.cell(name(column, row), name(column, rows[0])))
		}
		out.WriteString("\n")
	}
}

// cell is a benchmark's nanoseconds or instructions, the ratio to another one,
// the allocations if there are any.
func (r *results) cell(name, beside string) string {
	n, ok := r.Median(name, r.unit)
	if !ok {
		return ""
	}
	s := strconv.FormatFloat(n, 'f', decimals(n), 64)
	if r.unit == instructions {
		s = strconv.FormatFloat(n, 'f', 0, 64)
	}
	if base, ok := r.Median(beside, r.unit); ok {
		s += fmt.Sprintf(" (%.*f)", decimals(n/base), n/base)
	}
	if allocs, _ := r.Median(name, "allocs/op"); allocs > 0 {
		s += fmt.Sprintf(" %.0f allocs", allocs)
	}
	return s
}

// decimals leaves a number some three digits.
func decimals(v float64) int {
	switch {
	case v < 10:
		return 2
	case v < 100:
		return 1
	}
	return 0
}

// sums is what the names of package icrc's benchmarks of each way to compute
// begin with, as in "@icrc Sum/ip=4/octets=56/by=folding".
const sums = "@icrc Sum/"

// ways is a table for each way to compute the ICRC, beside hash/crc32.
func (r *results) ways() string {
	var columns, ways []string
	names := map[string]string{} // of benchmarks, by column and row
	for _, name := range r.names {
		size, way, _ := strings.Cut(strings.TrimPrefix(name, sums), "/by=")
		if !strings.HasPrefix(name, sums) {
			continue
		}
		column := strings.NewReplacer("ip=", "IPv", "/octets=", ", ").Replace(size) + " octets"
		if way == "crc32" {
			way = "hash/crc32"
		} else if !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
		if !slices.Contains(columns, column) {
			columns = append(columns, column)
		}
		names[column+way] = name
	}
	var out strings.Builder
	for _, way := range ways {
		r.table(&out, "ICRC by "+way, columns, []string{"hash/crc32", way},
			func(column, row string) string { return names[column+row] })
	}
	return out.String()
}

// others is a table of the benchmarks of other packages, whose names have their
// package before a space.
func (r *results) others() string {
	var out strings.Builder
	for _, name := range r.names {
		pkg, rest, ok := strings.Cut(name, " ")
		if !ok || !strings.HasPrefix(pkg, "@") || strings.HasPrefix(name, sums) {
			continue
		}
		if out.Len() == 0 {
			out.WriteString("\n### Packages\n\n| package | benchmark | ns | allocations |\n|---|---|--:|--:|\n")
		}
		ns, _ := r.Median(name, nanoseconds)
		allocs, _ := r.Median(name, "allocs/op")
		fmt.Fprintf(&out, "| %s | %s | %.*f | %.0f |\n", pkg[1:], rest, decimals(ns), ns, allocs)
	}
	return out.String()
}

// parts returns the different n-th parts of the names in a section, "" for all,
// in their order.
func (r *results) parts(section string, n int) (parts []string) {
	for _, name := range r.names {
		p := strings.SplitN(name, "/", 3)
		if len(p) == 3 && !strings.HasPrefix(name, "@") && (section == "" || p[0] == section) &&
			!slices.Contains(parts, p[n]) {
			parts = append(parts, p[n])
		}
	}
	return parts
}

// labUnits are the columns of the laboratory's table. Events, hops and s are by
// time of processors, ns by the clock.
var labUnits = []string{"Mevents/s", "Mhops/s", "s/op", nanoseconds, "allocs/op"}

// lab is the table of the laboratory's benchmarks.
func (r *results) lab() string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n| package | benchmark | %s |\n|---|---|%s\n", strings.Join(labUnits, " | "),
		strings.Repeat("--:|", len(labUnits)))
	for _, name := range r.names {
		pkg, rest, _ := strings.Cut(strings.TrimPrefix(name, "@"), " ")
		fmt.Fprintf(&out, "| %s | %s |", pkg, rest)
		for _, unit := range labUnits {
			cell := ""
			if m, ok := r.Median(name, unit); ok && m >= 1000 {
				cell = strconv.FormatFloat(m, 'f', 0, 64)
			} else if ok {
				cell = strconv.FormatFloat(m, 'g', 3, 64)
			}
			fmt.Fprintf(&out, " %s |", cell)
		}
		out.WriteString("\n")
	}
	return out.String()
}
