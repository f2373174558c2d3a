// Judge compares the output of rocecn for the captures of a case of the testbed with the counts of
// other observers: the drops and marks of the queue, and the queue pairs of the programs at both
// ends.
//
//	judge [-rocecn PROGRAM] FOLDER
//
// It prints a line for each case below FOLDER, and ends with status 1 if
// something is not as it should be.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
)

func main() {
	rocecn := flag.String("rocecn", "rocecn", "the `program` that is judged")
	flag.Parse()
	cases, err := filepath.Glob(filepath.Join(flag.Arg(0), "*", "behind.pcap"))
	if err != nil || len(cases) == 0 {
		fmt.Fprintln(os.Stderr, "judge: no cases in", flag.Arg(0))
		os.Exit(1)
	}
	wrong := 0
	var all []testCase
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CASE\tCLIENT\tPACKETS\tLOST\tDROPS\tCE\tMARKS\tICRC WRONG\tPAIRS RIGHT\tVERDICT")
	for _, queued := range cases {
		c := testCase{rocecn: *rocecn, folder: filepath.Dir(queued)}
		all = append(all, c)
		r, err := c.readResult()
		verdict := "right"
		if err == nil {
			err = r.judgeResult()
		}
		if err == nil {
			err = c.checkNotified()
		}
		if err != nil {
			wrong++
			verdict = err.Error()
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d of %d\t%s\n",
			filepath.Base(c.folder), r.status, r.packets, r.lost, r.drops, r.ce, r.marks,
			r.icrcWrong, r.pairsRight, r.pairs, verdict)
	}
	table.Flush()
	if err := loopTable(os.Stdout, all); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		wrong++
	}
	if wrong > 0 {
		os.Exit(1)
	}
}

// A result has the values of rocecn beside those of other observers.
type result struct {
	status, packets       int
	lost, added, ce       int // by flows -compare
	drops, marks          int // by tc
	icrcWrong, cut        int // by inspect, in both captures
	printed               bool
	pairs                 int // that the programs printed, of those that can be known
	pairsRight, pairsElse int // by pairs: such pairs, and others
}

func (r result) judgeResult() error {
	switch {
	case r.status != 0:
		return fmt.Errorf("the client failed with status %d", r.status)
	case r.packets == 0:
		return fmt.Errorf("nothing was captured")
	case r.lost != r.drops:
		return fmt.Errorf("lost %d is not drops %d", r.lost, r.drops)
	case r.ce != r.marks:
		return fmt.Errorf("CE %d is not marks %d", r.ce, r.marks)
	case r.added != 0:
		return fmt.Errorf("%d packets came out that did not go in", r.added)
	case r.icrcWrong != 0:
		return fmt.Errorf("%d wrong ICRCs", r.icrcWrong)
	case r.cut != 0:
		return fmt.Errorf("%d packets are cut", r.cut)
	case r.printed && r.pairsRight != r.pairs:
		return fmt.Errorf("%d of %d pairs", r.pairsRight, r.pairs)
	case r.printed && r.pairsElse != 0:
		return fmt.Errorf("%d pairs that no program printed", r.pairsElse)
	}
	return nil
}

type testCase struct{ rocecn, folder string }

func (c testCase) readResult() (r result, err error) {
	if err = mergeResults(c.folder); err != nil {
		return r, err
	}
	if r.status, err = strconv.Atoi(strings.TrimSpace(c.readText("client.status"))); err != nil {
		return r, err
	}
	r.drops, r.marks = queueCounts(c.readText("queue.txt"))
	if m := switchMarks.FindStringSubmatch(c.readText("switch.agent.metrics")); m != nil && m[1] != "0" {
		// The kernel's switch marks packets as they arrive at a queue, and the queue is full at a
		// greater depth than the marking threshold: dropped packets were marked.
		r.marks, _ = strconv.Atoi(m[1])
		r.marks -= r.drops
	}
	before, after := filepath.Join(c.folder, "before.pcap"), filepath.Join(c.folder, "behind.pcap")
	err = c.readLines(func(l line) {
		if l.Total {
			r.packets = l.Packets.A
		}
		if l.Dst == "fd00:2::1" { // only packets through the queue: the switch itself sends, too
			r.lost += l.Lost
			r.added += l.Added
			r.ce += l.ECN["ect0>ce"] + l.ECN["ect1>ce"]
		}
	}, "flows", "-json", "-compare", before, after)
	if err != nil {
		return r, err
	}
	for _, file := range []string{before, after} {
		err = c.readLines(func(l line) {
			r.icrcWrong += l.ICRCWrong
			r.cut += l.Truncated
		}, "flows", "-json", file)
		if err != nil {
			return r, err
		}
	}
	clients, err := filepath.Glob(filepath.Join(c.folder, "*.client.txt"))
	if err != nil {
		return r, err
	}
	truth := map[[2]int]bool{}
	for _, client := range clients {
		maps.Copy(truth, printedPairs(c.readText(filepath.Base(client))))
	}
	r.pairs, r.printed = len(truth), len(truth) > 0
	switch commands := c.readText("commands.txt"); {
	case strings.Contains(commands, "-c UC"): // no responses, and no packet names the sender
		r.pairs = 0
	case strings.Contains(commands, "-c UD"): // no responses, but datagrams name the sender
		r.pairs /= 2
	}
	err = c.readLines(func(l line) {
		switch {
		case l.DestQP <= 1 || l.SrcQP == nil: // management, and flows with an unknown sender
		case truth[[2]int{*l.SrcQP, l.DestQP}]:
			r.pairsRight++
		default:
			r.pairsElse++
		}
	}, "pairs", "-json", before)
	return r, err
}

// readText is a file of the case, empty if there is none.
func (c testCase) readText(name string) string {
	b, _ := os.ReadFile(filepath.Join(c.folder, name))
	return string(b)
}

// A line is a line of rocecn's output. Each command prints some of these fields.
type line struct {
	Total     bool           `json:"total"`
	Dst       string         `json:"dst"`
	Packets   packets        `json:"packets"`
	Lost      int            `json:"lost"`
	Added     int            `json:"added"`
	ECN       map[string]int `json:"ecn_changed"`
	ICRCWrong int            `json:"icrc_wrong"`
	Truncated int            `json:"truncated"`
	SrcQP     *int           `json:"src_qp"`
	DestQP    int            `json:"dest_qp"`
}

// packets are an object where two captures are compared, and a number of one.
type packets struct{ A int }

func (p *packets) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return json.Unmarshal(b, &p.A)
	}
	var both struct{ A int }
	err := json.Unmarshal(b, &both)
	p.A = both.A
	return err
}

func (c testCase) readLines(each func(line), args ...string) error {
	out, err := exec.Command(c.rocecn, args...).Output()
	if err != nil {
		return fmt.Errorf("rocecn %s: %w", args[0], err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var l line
		if err := d.Decode(&l); err != nil {
			return fmt.Errorf("rocecn %s: %w", args[0], err)
		}
		each(l)
	}
	return nil
}

var (
	leaf        = regexp.MustCompile(`(?s)qdisc \w+ 10: .*`)
	dropped     = regexp.MustCompile(`\(dropped (\d+),`)
	switchMarks = regexp.MustCompile(`role="switch",outcome="marked"} (\d+)`)

	marked  = regexp.MustCompile(`marked (\d+) early`)
	address = regexp.MustCompile(`(local|remote) address:.* QPN 0x([0-9a-f]+)`)
)

// queueCounts finds the drops and marks of the queue 10: in the output of tc -s.
func queueCounts(tc string) (drops, marks int) {
	tc = leaf.FindString(tc)
	if m := dropped.FindStringSubmatch(tc); m != nil {
		drops, _ = strconv.Atoi(m[1])
	}
	if m := marked.FindStringSubmatch(tc); m != nil {
		marks, _ = strconv.Atoi(m[1])
	}
	return drops, marks
}

// printedPairs are the pairs of queue pairs that perftest prints, from and to, in
// both directions: the i-th of its own belongs to the i-th of the other end.
func printedPairs(perftest string) map[[2]int]bool {
	qps := map[string][]int{}
	for _, m := range address.FindAllStringSubmatch(perftest, -1) {
		qp, _ := strconv.ParseInt(m[2], 16, 32)
		qps[m[1]] = append(qps[m[1]], int(qp))
	}
	pairs := map[[2]int]bool{}
	for i, local := range qps["local"] {
		if i < len(qps["remote"]) {
			pairs[[2]int{local, qps["remote"][i]}] = true
			pairs[[2]int{qps["remote"][i], local}] = true
		}
	}
	return pairs
}
