// Agent measures how long the agent takes from a congested packet to its Fast CNP, by
// each way in, how many answers a core gives in a second, and what is lost of 50,000
// packets a second:
//
//	go run ./tools/bench/agent
//	go run ./tools/bench/agent -w docs/BENCHMARKS.md    # puts the tables there, too
//
// It runs the benchmarks of cmd/rocecn/internal/io/latency, as root: first as the
// machine is, which must be idle for those columns to mean what they say, then beside
// two busy processes for each CPU. It prints the load of the machine before each.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/rocecn/rocecn/tools/bench/internal/printed"
)

func main() {
	log.SetFlags(0)
	count := flag.Int("count", 4, "how often each is measured; figures are medians")
	trips := flag.Int("n", 3000, "round trips of each measurement")
	file := flag.String("w", "", "replace the tables of this `file`, too")
	spin := flag.Bool("spin", false, "only keep a CPU busy")
	flag.Parse()
	if *spin {
		for i := 0; ; i++ { // until it is killed
			runtime.KeepAlive(i)
		}
	}
	idle, load, err := measure(*count, *trips, 0)
	if err != nil {
		log.Fatal(err)
	}
	loaded, loadThen, err := measure(*count, *trips, 2*runtime.NumCPU())
	if err != nil {
		log.Fatal(err)
	}
	text := tables(idle, loaded) + fmt.Sprintf("\n%s, %d CPUs, %s; %d runs of %d round trips. Load before: %s, %s.\n",
		kernel(), runtime.NumCPU(), runtime.Version(), *count, *trips, load, loadThen)
	fmt.Print(text)
	if *file != "" {
		if err := printed.Replace(*file, "agent", text); err != nil {
			log.Fatal(err)
		}
	}
}

// measure runs the benchmarks beside so many busy processes, and returns the load of the
// machine before that.
func measure(count, trips, busy int) (r printed.Runs, load string, err error) {
	average, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil, "", err
	}
	load, _, _ = strings.Cut(string(average), " ")
	for range busy {
		self, err := os.Executable()
		if err != nil {
			return nil, "", err
		}
		c := exec.Command(self, "-spin")
		if err := c.Start(); err != nil {
			return nil, "", err
		}
		defer func() { c.Process.Kill(); c.Wait() }()
	}
	const dir = "./cmd/rocecn/internal/io/latency"
	var out bytes.Buffer
	for _, args := range [][]string{
		{"-bench", "Answer", "-benchtime", strconv.Itoa(trips) + "x"},
		{"-bench", "Loss", "-benchtime", "250000x"},
	} {
		args = slices.Concat([]string{"test", "-run", "^$", "-count", strconv.Itoa(count)}, args, []string{dir})
		c := exec.Command("go", args...)
		c.Stdout, c.Stderr = &out, os.Stderr
		if err := c.Run(); err != nil {
			os.Stderr.Write(out.Bytes())
			return nil, "", err
		}
	}
	r = printed.Runs{}
	for line := range strings.Lines(out.String()) {
		if _, err := r.Add(line, ""); err != nil {
			return nil, "", err
		}
	}
	return r, load, nil
}

// ways are the rows of the first table, and readers those of the second.
var (
	ways = [][3]string{
		{"AnswerKernel", "kernel: BPF at tc egress, by the depth of a TBF", "the kernel"},
		{"AnswerQdisc", "qdisc: BPF at the queue, ring buffer, behind a TBF", "`node/congested`, raw socket"},
		{"AnswerPacket", "packet: AF_PACKET at the way in", "same"},
		{"AnswerNFLOG", "nflog: a rule of nftables, NFLOG", "same"},
	}
	readers = [][2]string{
		{"Loss/packet", "source `packet` and `node/congested`, one answer a millisecond"},
		{"Loss/flows", "`rocecn flows -i`"},
		{"Loss/inspect", "`rocecn inspect -i`, into a file"},
		{"Loss/tcpdump", "`tcpdump -w`, to compare"},
	}
)

// tables returns the tables in Markdown.
func tables(idle, loaded printed.Runs) string {
	var b strings.Builder
	b.WriteString("| way in | answered by | idle: min µs | median µs | p99 µs | loaded: median µs | p99 µs | " +
		"CPU, µs an answer | answers/s a core |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, w := range ways {
		cell := func(r printed.Runs, unit string) string { return shown(r.Median(w[0], unit)) }
		each, ok := idle.Median(w[0], "cpu-µs/answer")
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", w[1], w[2],
			cell(idle, "min-µs"), cell(idle, "median-µs"), cell(idle, "p99-µs"),
			cell(loaded, "median-µs"), cell(loaded, "p99-µs"), shown(each, ok), shown(1e6/each, ok))
	}
	b.WriteString("\n| reads 50,000 packets/s | idle: lost | loaded: lost |\n|---|--:|--:|\n")
	for _, r := range readers {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r[1], lost(idle, r[0]), lost(loaded, r[0]))
	}
	return b.String()
}

// lost returns what of all runs together was lost, in percent where that is anything.
func lost(r printed.Runs, benchmark string) string {
	all := r[benchmark]["lost-%"]
	if len(all) == 0 {
		return ""
	}
	if slices.Max(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	return fmt.Sprintf("%.2g to %.2g %%", all[0], all[len(all)-1])
}

// shown returns a figure with three digits, nothing if there is none.
func shown(v float64, ok bool) string {
	switch {
	case !ok:
		return ""
	case v >= 1000:
		return fmt.Sprintf("%d,%03d", int(v)/1000, int(v)%1000)
	case v >= 100:
		return strconv.Itoa(int(v + 0.5))
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return "Linux " + strings.TrimSpace(string(release))
}
