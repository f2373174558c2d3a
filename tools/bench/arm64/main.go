// Arm64 counts the instructions that the benchmarks take on arm64, by emulation, where no such CPU is there to give
// times. It prints them as go test prints benchmarks:
//
//	go -C tools run ./bench/arm64 >arm64.txt
//
// It needs qemu-aarch64-static, which executes one instruction at a time and writes a line for
// each. A benchmark runs 100 and 1,100 times: an instruction that an operation executes k times has
// k*1,000 more lines in the second run, with a small difference caused by the runtime, and counts
// k. The instructions before and after the operations are the same in both runs.
//
// Only functions that a frame may reach have lines, because writing lines takes most of the time.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// measured is which benchmarks of package bench are counted: none that allocates, as that is the runtime's.
var measured = []string{
	"^BenchmarkRead$/.*/^(hash|by_hand|walk.*|message.*|gopacket's_own_layers|DecodingLayerParser)$",
	"^BenchmarkBuild$/.*/^(ICRC|IP_and_UDP|AppendFor)$",
	"^BenchmarkICRC$/.*/^(hash|icrc.Sum)$",
}

// reached are the prefixes of the names of functions that a frame may reach.
var reached = []string{"github.com/rocecn/rocecn/", "github.com/google/gopacket", "hash/crc32.", "net/netip.",
	"runtime.memmove", "runtime.memequal", "runtime.mapaccess2_fast64", "runtime.gorecover"}

const emulator = "qemu-aarch64-static"

func main() {
	only := flag.String("bench", "", "count the benchmarks of this `pattern`, and no others")
	flag.Parse()
	if *only != "" {
		measured = []string{*only}
	}
	if err := runBenchmark(); err != nil {
		fmt.Fprintln(os.Stderr, "arm64:", err)
		os.Exit(1)
	}
}

func runBenchmark() error {
	version, err := exec.Command(emulator, "--version").Output()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "arm64-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := &binary{path: filepath.Join(dir, "bench")}
	build := exec.Command("go", "test", "-c", "-o", t.path, "./bench")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if t.ranges, err = codeRanges(t.path); err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(version), "\n")
	first, _, _ = strings.Cut(first, " (") // the package of the version
	fmt.Printf("goos: linux\ngoarch: arm64\npkg: github.com/rocecn/rocecn/tools/bench\ncpu: emulated by %s\n", first)
	for _, pattern := range measured {
		if err := t.countAll(pattern); err != nil {
			return err
		}
	}
	return nil
}

// A binary is the test binary of package bench.
type binary struct {
	path   string
	ranges string // of addresses that have lines, as qemu's -dfilter takes them
}

// codeRanges returns the addresses of the functions that a frame may reach.
func codeRanges(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return "", err
	}
	symbols = slices.DeleteFunc(symbols, func(s elf.Symbol) bool {
		return elf.ST_TYPE(s.Info) != elf.STT_FUNC || strings.Contains(s.Name, ".init") ||
			!slices.ContainsFunc(reached, func(front string) bool { return strings.HasPrefix(s.Name, front) })
	})
	slices.SortFunc(symbols, func(a, b elf.Symbol) int { return cmp.Compare(a.Value, b.Value) })
	type span struct{ from, to uint64 }
	var spans []span // few, as qemu looks through them all at every instruction
	for _, s := range symbols {
		if last := len(spans) - 1; last >= 0 && s.Value-spans[last].to < 64 {
			spans[last].to = s.Value + s.Size
		} else {
			spans = append(spans, span{s.Value, s.Value + s.Size})
		}
	}
	var out []string
	for _, s := range spans {
		out = append(out, fmt.Sprintf("%#x..%#x", s.from, s.to-1))
	}
	return strings.Join(out, ","), nil
}

// countAll prints the instruction counts of each benchmark of a pattern.
func (t *binary) countAll(pattern string) error {
	out, err := t.newCommand(nil, pattern, 1).Output()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		n, err := t.countExecuted(fields[0])
		if err != nil {
			return fmt.Errorf("%s: %w", fields[0], err)
		}
		fmt.Printf("%s\t%d\t%d instructions/op\n", fields[0], many-few, n)
	}
	return nil
}

const few, many = 100, 1100

// countExecuted returns the number of instructions of an operation of a benchmark. It measures again if the
// instructions of other code are too many to separate them from those of the operation.
func (t *binary) countExecuted(name string) (n int, err error) {
	for range 3 {
		less, err := t.traceExecuted(name, few)
		if err != nil {
			return 0, err
		}
		more, err := t.traceExecuted(name, many)
		if err != nil {
			return 0, err
		}
		clear := true
		n = 0
		for address := range more {
			const operations = many - few
			each := (more[address] - less[address] + operations/2) / operations
			rest := more[address] - less[address] - each*operations
			clear = clear && -operations/4 < rest && rest < operations/4
			n += each
		}
		if clear {
			return n, nil
		}
	}
	return 0, errors.New("not the same number of instructions in every operation")
}

// traceExecuted runs one benchmark and returns the number of executions of each instruction, by its
// address.
func (t *binary) traceExecuted(name string, times int) (executed map[uint64]int, err error) {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	options := []string{"-singlestep", "-d", "nochain,exec", "-dfilter", t.ranges, "-D", "/proc/self/fd/3"}
	c := t.newCommand(options, strings.Join(parts, "/"), times)
	c.ExtraFiles = []*os.File{out}
	err = c.Start()
	out.Close()
	if err != nil {
		return nil, err
	}
	executed = map[uint64]int{}
	lines := bufio.NewScanner(in)
	for lines.Scan() { // Trace 0: 0x7f0612e35000 [0000000001009331/0000000000012140/00000001/00000201] function
		if line := lines.Bytes(); bytes.HasPrefix(line, []byte("Trace ")) {
			_, rest, _ := bytes.Cut(line, []byte("/"))
			address, _, _ := bytes.Cut(rest, []byte("/"))
			at, err := strconv.ParseUint(string(address), 16, 64)
			if err != nil {
				return nil, err
			}
			executed[at]++
		}
	}
	return executed, errors.Join(lines.Err(), c.Wait())
}

// newCommand runs the benchmarks of a pattern so many times, without the runtime's background work as far as it lets
// one.
func (t *binary) newCommand(options []string, pattern string, times int) *exec.Cmd {
	args := append(options, t.path, "-test.run", "^$", "-test.bench", pattern,
		"-test.benchtime", fmt.Sprint(times, "x"), "-test.cpu", "1")
	c := exec.Command(emulator, args...)
	c.Dir, c.Stderr = "bench", os.Stderr
	c.Env = append(os.Environ(), "GOGC=off", "GODEBUG=asyncpreemptoff=1")
	return c
}
