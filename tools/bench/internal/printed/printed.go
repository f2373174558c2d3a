// Package printed reads what go test prints of benchmarks, and puts tables of that into files.
package printed

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Runs are the figures of benchmarks, by name and unit, such as ns/op.
type Runs map[string]map[string][]float64

// Add adds what a line says of a benchmark, whose name, without the number of CPUs and with blanks for underscores, it
// returns with this in front; the name is empty for any other line.
func (r Runs) Add(line, front string) (name string, err error) {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return "", nil
	}
	name = front + strings.ReplaceAll(strings.TrimPrefix(fields[0], "Benchmark"), "_", " ")
	if at := strings.LastIndexByte(name, '-'); at > strings.LastIndexByte(name, '/') { // GOMAXPROCS
		if _, err := strconv.Atoi(name[at+1:]); err == nil {
			name = name[:at]
		}
	}
	if r[name] == nil {
		r[name] = map[string][]float64{}
	}
	for i := 2; i+1 < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return "", fmt.Errorf("%s: %w", line, err)
		}
		r[name][fields[i+1]] = append(r[name][fields[i+1]], v)
	}
	return name, nil
}

// Median returns the median of a benchmark, and whether it has such a unit.
func (r Runs) Median(name, unit string) (m float64, ok bool) {
	sorted := slices.Sorted(slices.Values(r[name][unit]))
	if len(sorted) == 0 {
		return 0, false
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2, true
}

// Replace puts text between the lines <!-- section --> and <!-- end section --> of a file.
func Replace(file, section, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+section+" -->\n", "<!-- end "+section+" -->\n"
	head, rest, found := strings.Cut(string(old), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !found || !ends {
		return fmt.Errorf("%s: no lines %s and %s", file, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(file, []byte(head+begin+text+end+tail), 0o644)
}
