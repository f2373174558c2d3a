// Package flows is the command that prints the history of each flow of RoCEv2 traffic.
package flows

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/batches"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/terminal"
	"github.com/rocecn/rocecn/flows"
)

const usage = `usage: rocecn flows [flags] FILE…
       rocecn flows [flags] -i INTERFACE
       rocecn flows [-json] [-top N] [-trouble] [-address …] [-qp …] -compare A B
       rocecn flows [-json] [-explain] [-interval TIME] [-top N] [-trouble] [-address …] [-qp …] -sflow ADDR [FILE…]
Reports for every flow of RoCEv2 traffic: missing packets, retransmissions and their causes, CE marks and CNPs, round
trip times. FILE is a pcap or pcapng capture, gzip or not, or - for standard input; several are read as one.

`

// options are the values of the flags.
type options struct {
	form     string // human, json, csv or prometheus
	interval time.Duration
	top      int
	choice   choice
	order    order
	rules    []rule
	workers  int
	table    flows.Config
	decoder  flows.Decoder
	inputs   cli.Inputs
	html     string   // the file of the page; empty: none
	hosts    []string // files of rocecn host
	explains bool     // print verdicts
	all      bool     // all of them
	address  string   // of -listen; empty: none
	paths    bool     // print which flows of two hosts ECMP cannot tell apart
	sflow    string   // of -sflow; empty: none
	twoPoint bool     // compare the two files
	window   int
}

// parse reads the arguments. Without options the status is that to end with.
func parse(args []string, stdin io.Reader, stderr io.Writer) (o *options, status int) {
	o = &options{form: "human", inputs: cli.Inputs{Stdin: stdin}}
	flags := cli.Flags("flows", usage, stderr)
	forms := 0
	form := func(name, help string) {
		flags.BoolFunc(name, help, func(text string) error {
			on, err := strconv.ParseBool(text)
			if on {
				o.form = name
				forms++
			}
			return err
		})
	}
	form("json", "print one JSON object for each line")
	form("csv", "print comma-separated values, one flow for each line")
	form("prometheus", "print the text format of Prometheus")
	flags.Func("html", "also write an HTML report to this `file`", func(name string) error {
		if o.html = name; name == "" || name == "-" {
			return errors.New("want the name of a file")
		}
		return nil
	})
	flags.StringVar(&o.address, "listen", "",
		"serve the current state at this `address`, such as 127.0.0.1:9480: a page at /, /flows.json and /metrics")
	flags.BoolVar(&o.paths, "paths", false,
		"also list flows between the same hosts that share a UDP source port (ECMP puts them on one path)")
	flags.StringVar(&o.sflow, "sflow", "", "count the packets that switches sampled: receive sFlow (version 5) "+
		"at this UDP `address`, such as :6343, or with FILE or -i read the datagrams to its port")
	flags.DurationVar(&o.interval, "interval", 0, "print the changes in each `time` of the capture, such as 1s")
	order := flags.String("sort", "trouble",
		"order by trouble, src, dst, first, last, or a `number` such as ce or psn.missing, largest first")
	flags.IntVar(&o.top, "top", 0, "print only the first `N` flows")
	flags.BoolVar(&o.choice.trouble, "trouble", false, "only flows in trouble")
	flags.Func("check", "exit with status 3 when one of these `rules` is broken, such as "+
		"repeats=0,ce<1%,total.cnps>0,verdicts=0",
		func(list string) error {
			more, err := parseRules(list)
			if o.rules = append(o.rules, more...); err == nil && len(more) == 0 {
				err = errors.New("no rule")
			}
			return err
		})
	flags.Func("host", "add host counters recorded by rocecn host in this `file`; may be repeated",
		func(name string) error {
			o.hosts = append(o.hosts, name)
			return nil
		})
	flags.BoolVar(&o.explains, "explain", false,
		"explain problems: cause, affected hosts, frames, and a Wireshark filter")
	flags.BoolVar(&o.all, "all", false, "with -explain: print all findings instead of 10")
	flags.BoolVar(&o.twoPoint, "compare", false,
		"compare two captures of the same traffic: packets lost, changed, copied and delayed from A to B")
	flags.IntVar(&o.window, "window", flows.DefaultWindow,
		"with -compare: number of `packets` of each capture in which to search for the same packet")
	flags.IntVar(&o.workers, "workers", batches.DefaultWorkers(),
		"number of goroutines that decode packets, at most 128; the output does not depend on it")
	flags.Func("shard",
		"keep part `I/N` of the flows, I from 0 to N-1, or from 1 to N; all parts together are complete", o.parseShard)
	flags.IntVar(&o.table.MaxFlows, "max-flows", 0,
		"maximum number of `flows` in the table (0: 131072, with -listen 16384)")
	flags.BoolVar(&o.decoder.NoICRC, "no-icrc", false, "do not verify ICRCs")
	codePoints := o.defineFlags(flags)
	o.inputs.Without = func() bool { return o.sflow != "" }
	if status, ok := o.inputs.Parse(flags, args); !ok {
		return nil, status
	}
	names := o.inputs.Names
	var err, wrong error
	o.order, err = orderOf(*order)
	o.decoder.Config, wrong = codePoints.Config()
	switch {
	case err != nil:
		err = fmt.Errorf("-sort: %w", err)
	case wrong != nil:
		err = wrong
	case o.twoPoint && len(names) != 2:
		err = fmt.Errorf("-compare with %s: want 2", cli.Count(uint64(len(names)), "capture"))
	case o.twoPoint && (o.form == "csv" || o.form == "prometheus" || o.interval > 0 || len(o.rules) > 0 ||
		o.html != "" || *order != "trouble" || o.choice.dscps != 0 || o.table.Shards > 1):
		err = errors.New("-compare: cannot be combined with -csv, -prometheus, -interval, -check, -html, -sort, " +
			"-dscp or -shard")
	case o.twoPoint && names[0] == "-" && names[1] == "-":
		err = errors.New("-compare: only one of the captures can be standard input")
	case len(o.hosts) > 0 && (o.twoPoint || o.form == "csv" || o.form == "prometheus" || o.interval > 0 ||
		o.table.Shards > 1):
		err = errors.New("-host: cannot be combined with -compare, -csv, -prometheus, -interval or -shard")
	case o.explains && (o.twoPoint || o.form == "csv" || o.table.Shards > 1):
		err = errors.New("-explain: cannot be combined with -compare, -csv or -shard")
	case o.all && !o.explains:
		err = errors.New("-all: want -explain as well")
	case needFindings(o.rules) && o.table.Shards > 1:
		err = errors.New("-check verdicts or cause: cannot be combined with -shard")
	case o.address != "" && o.twoPoint:
		err = errors.New("-listen: cannot be combined with -compare")
	case o.paths && (o.twoPoint || o.form == "csv" || o.form == "prometheus" || o.interval > 0 || o.sflow != ""):
		err = errors.New("-paths: cannot be combined with -compare, -csv, -prometheus, -interval or -sflow")
	case o.sflow != "" && (o.twoPoint || o.form == "csv" || o.form == "prometheus" || len(o.rules) > 0 ||
		o.html != "" || o.address != "" || len(o.hosts) > 0 || o.table.Shards > 1 || *order != "trouble"):
		err = errors.New("-sflow: can only be combined with -json, -explain, -interval, -top, -trouble, -address, " +
			"-qp and -dscp")
	case o.sflow != "" && !strings.Contains(o.sflow, ":"):
		err = fmt.Errorf("-sflow %q: want an address and a port, such as :6343", o.sflow)
	case o.window < 1:
		err = fmt.Errorf("-window %d: want 1 or more", o.window)
	case forms > 1:
		err = errors.New("want only one of -json, -csv and -prometheus")
	case o.interval < 0:
		err = fmt.Errorf("-interval %v: want 0s or more", o.interval)
	case o.top < 0:
		err = fmt.Errorf("-top %d: want 0 or more", o.top)
	case o.interval > 0 && o.form == "prometheus":
		err = errors.New("-prometheus: cannot be combined with -interval, as Prometheus computes differences " +
			"itself")
	case o.workers < 1 || o.workers > maxWorkers:
		err = fmt.Errorf("-workers %d: want 1 to %d", o.workers, maxWorkers)
	case o.table.MaxFlows != 0 && o.table.MaxFlows < minFlows:
		err = fmt.Errorf("-max-flows %d: want 0, or %d or more", o.table.MaxFlows, minFlows)
	}
	if err != nil {
		return nil, cli.Misuse(stderr, "flows", err)
	}
	o.table.Seed = o.inputs.Seed()
	// A shard does not have the evidence that its flows share with others.
	o.table.Evidence = o.explains || needFindings(o.rules) || (o.html != "" || o.address != "") && o.table.Shards <= 1
	if o.address != "" {
		o.table.Series = true
		o.table.MaxFlows = cmp.Or(o.table.MaxFlows, liveFlows)
	}
	return o, 0
}

// defineFlags defines the flags for inputs and the choice of flows. The code points are valid after parsing.
func (o *options) defineFlags(flags *flag.FlagSet) *cli.CodePoints {
	flags.Func("address", "only flows from or to one of these addresses or prefixes (`list`)", o.choice.addAddress)
	flags.Func("qp", "only flows from or to one of these queue pairs, as 84 or 0x54 (`list`)", o.choice.addQP)
	flags.Func("dscp", "only flows with one of these DSCPs (`list`)", o.choice.addDSCP)
	flags.Func("link-rate",
		"`rate` of the link in bit/s, such as 25G, for the ends of PFC pauses; else 100G are assumed", o.linkRate)
	flags.BoolVar(&o.decoder.Outer, "outer", false, "ignore the packets inside mirrors and tunnels other than IP in IP")
	codePoints := new(cli.CodePoints)
	codePoints.Flags(flags)
	codePoints.ProxyFamily(flags)
	return codePoints
}

const (
	minFlows   = 16
	maxWorkers = 128
)

func (o *options) parseShard(text string) error {
	part, of, ok := strings.Cut(text, "/")
	i, err1 := strconv.Atoi(part)
	n, err2 := strconv.Atoi(of)
	if !ok || err1 != nil || err2 != nil || i < 0 || i > n || n < 1 {
		return errors.New("want I/N, I from 0 to N-1 or from 1 to N")
	}
	o.table.Shard, o.table.Shards = i%n, n
	return nil
}

// linkRate reads a rate, such as 25G, 25Gbit/s or 25000000000.
func (o *options) linkRate(text string) error {
	number := strings.TrimSpace(strings.TrimSuffix(text, "bit/s"))
	factor := 1.0
	if n := len(number); n > 0 {
		if i := strings.IndexByte("kMGT", number[n-1]); i >= 0 {
			factor, number = math.Pow(1000, float64(i+1)), strings.TrimSpace(number[:n-1])
		}
	}
	rate, err := strconv.ParseFloat(number, 64)
	if rate *= factor; err != nil || !(rate >= minRate && rate <= maxRate) {
		return errors.New("want a rate of 1M to 1000T")
	}
	o.table.LinkRate = uint64(rate)
	return nil
}

const minRate, maxRate = 1e6, 1e15 // bits a second

// collectAfter makes the garbage collector run when the memory has grown by so many percent, unless the user chose
// another number. Most memory is that of flows, which is never garbage: the default of 100 % would leave half of the
// memory of the process unused.
func collectAfter(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
		reserve()
	}
}

// reserve allocates 64 MB that are never used, so that they take no physical memory, and keeps them. The garbage
// collector counts them as memory in use. Apart from these 64 MB, reserve raises the heap goal by 16 MB at 25 %, and by
// 6.4 MB at 10 %, so that the collector does not run many times while the first tables grow.
var reserve = sync.OnceValue(func() []byte { return make([]byte, 64<<20) })

// The growth while packets are counted, which costs about 1 % of the time, and while a page is made of all flows.
const (
	countingGrowth = 25
	pageGrowth     = 10
)

// Run is the command: it returns the exit status.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, status := parse(args, stdin, stderr)
	if o == nil {
		return status
	}
	if o.twoPoint {
		return o.comparePoints(ctx, stdout, stderr)
	}
	if o.sflow != "" {
		return o.collectSamples(ctx, stdout, stderr)
	}
	collectAfter(countingGrowth)
	if err := o.checkPage(); err != nil {
		cli.PrintError(stderr, "flows", "-html "+o.html, err)
		return cli.Misused
	}
	page, err := o.createPage()
	if err != nil {
		return cli.End(stderr, "flows", err)
	}
	if page != nil {
		defer page.Abandon()
	}
	a := accountant{
		options: o,
		page:    page,
		table:   flows.New(o.table),
		out:     bufio.NewWriterSize(stdout, 64<<10),
		// https://no-color.org
		human: human{colour: cli.IsTerminal(stdout) && os.Getenv("NO_COLOR") == "", explains: o.explains,
			terminal: terminal.Width(stdout)},
		line: cli.NewProgress(stdout, stderr),
	}
	if o.inputs.Live && o.interval == 0 && o.address == "" {
		fmt.Fprintln(stderr, "rocecn flows: capturing until interrupted (Ctrl-C); then the flows are printed; "+
			"-interval 1s prints the changes meanwhile")
		a.line = cli.NewLiveProgress(stderr)
	}
	r := reader{inputs: o.inputs, decoder: o.decoder, workers: o.workers,
		packets: a.countPackets, datagram: a.countDatagram, idle: a.advanceIdle,
		progress: func(octets, size int64) { a.line.Update(a.countLive(), octets, size) }}
	var live *site
	if o.address != "" {
		if live, err = o.startSite(stderr); err != nil {
			return cli.End(stderr, "flows", err)
		}
		defer live.close()
		live.of, live.reader, r.asks = &a, &r, live.asks
	}
	for _, name := range o.inputs.Names {
		a.line.Name = name
		before := r.ended
		r.ended = time.Time{}
		err := r.readCapture(ctx, name)
		a.line.Clear()
		if r.ended.Before(before) && !r.ended.IsZero() { // files of one capture may overlap
			cli.PrintError(stderr, "flows", name, fmt.Errorf(
				"ends %v before the previous input: files are parts of one "+
					"capture, read in the order of their names here", before.Sub(r.ended)))
		}
		var out cli.OutputError
		switch {
		case errors.As(err, &out):
			return cli.End(stderr, "flows", out)
		case err != nil:
			cli.PrintError(stderr, "flows", name, err)
			if err != errUnknownLink {
				status = cli.Failed
			}
		}
	}
	if live != nil && (status == 0 || r.frames > 0) { // packets from before the error
		live.waitForEnd(ctx)
	}
	if page != nil {
		collectAfter(pageGrowth)
	}
	broken, err := a.finish()
	if err != nil {
		return cli.End(stderr, "flows", err)
	}
	if a.hostErr != nil {
		status = cli.End(stderr, "flows", a.hostErr)
	}
	if status == 0 || a.table.Stats().Packets > 0 {
		a.printSummary(stderr, &r)
	}
	for _, v := range broken {
		fmt.Fprintln(stderr, "rocecn flows:", v)
		status = cli.RuleBroken
	}
	if e := a.table.Evicted(); len(o.rules) > 0 && anyEvicted(&e) {
		fmt.Fprintf(stderr,
			"rocecn flows: -check: the table was full and evicted %s with %s and %s: want a larger -max-flows\n",
			cli.Count(e.Flows, "flow"), cli.Count(e.Packets, "packet"), cli.Count(e.Answers.Total(), "answer"))
		status = cli.RuleBroken
	}
	return status
}
