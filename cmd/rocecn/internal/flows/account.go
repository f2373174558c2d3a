package flows

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/rocev2"
)

// An accountant passes packets to a table, and prints the table: at the end of the input, or the changes in each
// interval.
type accountant struct {
	*options
	table   *flows.Table
	counted int // packets passed to the table
	out     *bufio.Writer
	human   human
	line    cli.Progress

	from, to time.Time   // the present interval, of -interval
	last     time.Time   // of the last packet
	csv      *csv.Writer // nil until its header is printed

	page *cli.Replacement // of -html; nil without

	show func(changed *flows.Snapshot) error // of rocecn top: instead of printing an interval

	begin, end time.Time // of -host: when the first and the last packet came
	joined     []hostLine

	crowded     bool                        // flows were evicted: nothing is explained
	onlyAnswers bool                        // nothing was seen of any flow but answers, at most
	verdicts    []triage.Verdict            // of -explain, and for the page; about chosen flows
	causes      map[rocev2.FlowKey][]string // of the verdicts about a flow

	hostErr error // of reading the files of -host

	drops *collector // of sFlow datagrams in the capture; nil without any
}

// countPackets is a packetsFunc.
func (a *accountant) countPackets(packets []flows.Packet, times []time.Time, frame uint64) error {
	a.counted += len(packets)
	for i := range packets {
		t := times[i]
		if a.interval > 0 {
			if err := a.advanceTo(t); err != nil {
				return err
			}
			a.last = t
		}
		if len(a.hosts) > 0 && !t.IsZero() {
			if a.begin.IsZero() || t.Before(a.begin) {
				a.begin = t
			}
			if t.After(a.end) {
				a.end = t
			}
		}
		a.table.Observe(&packets[i], frame+uint64(i), t)
	}
	return nil
}

// countDatagram counts the packets that a switch reports as discarded in a datagram of sFlow from an address.
func (a *accountant) countDatagram(b []byte, from netip.Addr, t time.Time) {
	if a.drops == nil {
		a.drops = newCollector(a.options)
		a.drops.decoder.NoICRC, a.drops.into = true, a.table
	}
	a.drops.countSamples(b, from, t)
}

// stepBack is the maximum age of a packet that still belongs to the present interval: the queues of an interface are
// not captured in order. If a packet is older, the clock has jumped.
const stepBack = time.Second

// advanceTo prints the interval that ends before or at t. A clock that jumps ends it,
// too.
func (a *accountant) advanceTo(t time.Time) error {
	back := a.from.Sub(t) > stepBack
	switch {
	case !a.hasInterval():
	case t.Before(a.to) && !back:
		return nil
	default:
		if err := a.printInterval(); err != nil {
			return err
		}
		if since := t.Sub(a.to); !back && since < longestGap {
			t = a.to.Add(since.Truncate(a.interval)) // intervals without a packet are passed over
		}
	}
	a.from, a.to = t, t.Add(a.interval)
	return nil
}

// countLive returns the number of packets of a live capture so far, and 0 for a file.
func (a *accountant) countLive() int {
	if !a.inputs.Live {
		return 0
	}
	return a.counted // not from the table, which would have to judge the capture too early
}

// hasInterval reports whether there is a present interval.
func (a *accountant) hasInterval() bool { return !a.to.IsZero() }

// longestGap is the time without packets after which the next interval begins with a packet, instead of a multiple of
// the interval after the last one.
const longestGap = 100 * 365 * 24 * time.Hour

// advanceIdle is reach for a live capture of which nothing came for so long.
func (a *accountant) advanceIdle(d time.Duration) error {
	if !a.hasInterval() {
		return nil
	}
	return a.advanceTo(a.last.Add(d))
}

// printInterval prints the changes in the present interval.
func (a *accountant) printInterval() error {
	changed := a.table.Changes()
	for i := range changed.Flows {
		f := &changed.Flows[i]
		f.Mean = float64(f.IPOctets) * 8 / a.interval.Seconds()
		f.Data.Mean = float64(f.Data.IPOctets*max(f.Sampled, 1)) * 8 / a.interval.Seconds()
		if f.Peak > 0 { // else there are too few requests; it is the flow's so far, and over 100 ms
			f.Peak = max(f.Peak, f.Mean)
		}
		if f.Data.Peak > 0 {
			f.Data.Peak = max(f.Data.Peak, f.Data.Mean)
		}
	}
	during := &intervalLine{formatTime(a.from), formatTime(a.to)}
	a.choice.apply(changed)
	if a.show != nil {
		return a.show(changed)
	}
	a.order.sort(changed.Flows)
	return a.printSnapshot(changed, during)
}

// finish prints the rest, and returns which rules are broken.
func (a *accountant) finish() (broken []verdict, err error) {
	if a.hasInterval() {
		if err := a.printInterval(); err != nil {
			return nil, err
		}
	}
	all := a.table.Snapshot()
	a.joined, a.hostErr = a.joinHosts(all, a.begin, a.end) // of all flows, chosen or not
	a.judgeSnapshot(all)
	broken = checkRules(a.rules, all.Flows, all.Unpaired, a.verdicts)
	if a.form == "human" {
		a.printCapture(&all.Capture)
		err = a.printVerdicts()
	}
	if err == nil && a.interval == 0 {
		err = a.printSnapshot(all, nil)
	}
	if err == nil && a.form == "json" {
		err = a.printVerdicts()
	}
	if err == nil {
		err = a.printPaths(all)
	}
	if err == nil {
		err = a.printHosts()
	}
	if err == nil && a.page != nil {
		err = a.writePage(all)
	}
	return broken, err
}

// judgeSnapshot finds the verdicts of a snapshot, and reduces the snapshot to the flows that are printed, in their
// order.
func (a *accountant) judgeSnapshot(all *flows.Snapshot) {
	a.verdicts, a.crowded = triage.Explain(all), all.Evicted.Flows > 0 // of all flows, chosen or not
	a.onlyAnswers = len(all.Flows) == 0
	a.choice.apply(all)
	a.chooseVerdicts(all)
	a.order.sort(all.Flows)
}

// printSnapshot prints a snapshot, of its flows the first by -top.
func (a *accountant) printSnapshot(all *flows.Snapshot, during *intervalLine) error {
	s := a.firstFlows(all)
	var err error
	switch a.form {
	case "json":
		err = a.printJSON(s, during)
	case "csv":
		if a.csv == nil {
			a.csv = csv.NewWriter(a.out)
			a.csv.Write(csvHeader())
		}
		writeCSV(a.csv, s, during)
	case "prometheus":
		b := appendPrometheus(nil, s)
		if a.explains && !a.crowded {
			b = appendFindings(b, a.verdicts)
		}
		a.out.Write(b)
	default:
		table := a.human.appendTable(nil, s)
		if during != nil && len(table) > 0 {
			fmt.Fprintf(a.out, "%s to %s\n", during.From, during.To)
		}
		a.out.Write(table)
	}
	return cli.Output(cmp.Or(err, a.out.Flush())) // reports whether all of it was written
}

// firstFlows returns a snapshot with the first flows alone, by -top.
func (o *options) firstFlows(all *flows.Snapshot) *flows.Snapshot {
	s := *all
	if o.top > 0 {
		s.Flows = s.Flows[:min(len(s.Flows), o.top)]
	}
	return &s
}

func (a *accountant) printJSON(s *flows.Snapshot, during *intervalLine) error {
	return a.eachLine(s, during, cli.NewJSON(a.out).Encode)
}

// eachLine calls put with the object of each line, until it returns an error.
func (a *accountant) eachLine(s *flows.Snapshot, during *intervalLine, print func(line any) error) (err error) {
	write := func(line any) {
		if err == nil {
			err = print(line)
		}
	}
	if a.options.table.Shard == 0 && (during == nil || len(describeCapture(&s.Capture)) > 0) {
		write(captureLineOf(&s.Capture, during))
	}
	for i := range s.Flows {
		write(a.addExplanation(lineOf(&s.Flows[i], during), &s.Flows[i]))
	}
	for i := range s.Unpaired {
		write(unpairedLineOf(&s.Unpaired[i], during))
	}
	for i := range s.Links {
		write(pfcLineOf(&s.Links[i], during))
	}
	if line := evictedLineOf(s); line != nil {
		write(line)
	}
	return err
}

// printSummary prints the number of packets of each kind.
func (a *accountant) printSummary(w io.Writer, r *reader) {
	s := a.table.Stats()
	fmt.Fprint(w, cli.Count(s.Packets, "packet"))
	for _, c := range []struct {
		n    uint64
		what string
	}{{s.Others, "other"}, {s.Broken, "broken"}, {s.DroppedPFC, "PFC of too many sources"}} {
		if c.n > 0 {
			fmt.Fprintf(w, ", %d %s", c.n, c.what)
		}
	}
	if s.Truncated > 0 {
		fmt.Fprintf(w, ", %d truncated by the snapshot length (want %d octets of each)", s.Truncated, s.SnapLength)
	}
	if e := a.table.Evicted(); e.Flows > 0 {
		fmt.Fprintf(w, "; table full (-max-flows): evicted %s with %s", cli.Count(e.Flows, "flow"),
			cli.Count(e.Packets, "packet"))
	}
	if s.Unlearned > 0 {
		fmt.Fprintf(w, "; queue pairs may be unknown: the tables were full for %s (-max-flows)",
			cli.Count(s.Unlearned, "packet"))
	}
	if r.inputs.Live {
		fmt.Fprintf(w, ", %d dropped by the kernel", r.dropped)
	}
	fmt.Fprintln(w)
}
