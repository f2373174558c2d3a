package flows

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
)

// comparePoints is -compare A B: the same packets at two points.
func (o *options) comparePoints(ctx context.Context, stdout, stderr io.Writer) (status int) {
	for _, name := range o.inputs.Names {
		if err := checkReadable(name); err != nil {
			cli.PrintError(stderr, "flows", name, err)
			status = cli.Failed
		}
	}
	if status != 0 {
		return status
	}
	c := flows.NewComparison(flows.ComparisonConfig{Window: o.window, MaxFlows: o.table.MaxFlows})
	var points [2]*point
	for i, name := range o.inputs.Names {
		p := new(point)
		p.next, p.stop = iter.Pull2(p.readPackets(ctx, name, reader{inputs: o.inputs, decoder: o.decoder, workers: 1}))
		defer p.stop()
		points[i] = p
	}
	for {
		at := c.Next()
		if points[at].ended {
			at = 1 - at
		}
		p := points[at]
		if p.ended {
			break
		}
		if packet, t, ok := p.next(); ok {
			p.begun = true
			c.Observe(at, packet, t)
		} else if p.ended = true; p.err != nil && p.err != errUnknownLink && !p.begun {
			// There is nothing to compare with.
			cli.PrintError(stderr, "flows", o.inputs.Names[at], p.err)
			return cli.Failed
		}
	}
	c.Finish()
	for i, p := range points {
		if p.err == nil {
			continue
		}
		cli.PrintError(stderr, "flows", o.inputs.Names[i], p.err)
		if p.err != errUnknownLink {
			status = cli.Failed
		}
	}
	out := bufio.NewWriterSize(stdout, 64<<10)
	var err error
	if o.form == "json" {
		err = printComparisonJSON(out, c, o)
	} else {
		printComparison(out, c, o)
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return cli.End(stderr, "flows", err)
	}
	return status
}

// checkReadable says why a file cannot be read, as far as that shows before it is.
func checkReadable(name string) error {
	if name == "-" {
		return nil
	}
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(name)
	if err == nil {
		f.Close()
	}
	return err
}

// A point is one of the two captures. It is read on demand. After an interrupt, it returns the packets read so far.
type point struct {
	next  func() (*flows.Packet, time.Time, bool)
	stop  func()
	begun bool // there was a packet
	ended bool
	err   error // reason for the end, or nil at the end of the file; set when ended
}

// readPackets yields the packets of a capture.
func (p *point) readPackets(ctx context.Context, name string, r reader) iter.Seq2[*flows.Packet, time.Time] {
	return func(yield func(*flows.Packet, time.Time) bool) {
		r.packets = func(packets []flows.Packet, times []time.Time, _ uint64) error {
			for i := range packets {
				if !yield(&packets[i], times[i]) {
					return errDone
				}
			}
			return nil
		}
		p.err = r.readCapture(ctx, name)
	}
}

var errDone = errors.New("comparison has ended")

// A comparedLine is the JSON object of a flow at two points, or of all.
type comparedLine struct {
	Compare    bool              `json:"compare"`
	Total      bool              `json:"total,omitempty"`
	Src        *netip.Addr       `json:"src,omitempty"`
	Dst        *netip.Addr       `json:"dst,omitempty"`
	DestQP     *uint32           `json:"dest_qp,omitempty"`
	Packets    pointsLine        `json:"packets"`
	Same       uint64            `json:"same"`
	Lost       uint64            `json:"lost"`
	Outside    uint64            `json:"outside"`
	Added      uint64            `json:"added"`
	Duplicated pointsLine        `json:"duplicated"`
	DSCP       map[string]uint64 `json:"dscp_changed,omitempty"`
	ECN        map[string]uint64 `json:"ecn_changed,omitempty"`
	Delay      *delayLine        `json:"delay_us,omitempty"`
	Clocks     *clocksLine       `json:"clocks,omitempty"`
	Evicted    uint64            `json:"evicted_flows,omitempty"`
}

type (
	pointsLine struct {
		A uint64 `json:"a"`
		B uint64 `json:"b"`
	}
	delayLine struct {
		timesLine
		Max float64 `json:"max"`
	}
	clocksLine struct {
		Known  string   `json:"known"`
		Offset *float64 `json:"offset_us,omitempty"`
		Delay  *float64 `json:"least_delay_us,omitempty"`
	}
)

func comparedLineOf(f *flows.Compared) *comparedLine {
	l := &comparedLine{Compare: true,
		Packets: pointsLine{f.Packets[0], f.Packets[1]}, Same: f.Same, Lost: f.Lost, Outside: f.Outside, Added: f.Added,
		Duplicated: pointsLine{f.Duplicated[0], f.Duplicated[1]},
		DSCP:       formatChanges(f.DSCP, func(v uint8) string { return fmt.Sprint(v) }),
		ECN:        formatChanges(f.ECN, func(v uint8) string { return ecnNames[v&3] }),
	}
	if f.Src.IsValid() {
		l.Src, l.Dst, l.DestQP = &f.Src, &f.Dst, &f.DestQP
	}
	if d := &f.Delay; d.Count() > 0 {
		l.Delay = &delayLine{timesOf(d), toMicroseconds(d.Max())}
	}
	return l
}

// formatChanges formats changes as "from>to".
func formatChanges(all flows.Rewrites, name func(uint8) string) map[string]uint64 {
	named := map[string]uint64{}
	for change, n := range all {
		named[name(change[0])+">"+name(change[1])] = n
	}
	return named
}

func printComparisonJSON(w io.Writer, c *flows.Comparison, o *options) error {
	out := cli.NewJSON(w)
	for _, f := range o.printComparison(c) {
		if err := out.Encode(comparedLineOf(f)); err != nil {
			return err
		}
	}
	total, clocks := c.Total(), c.Clocks()
	l := comparedLineOf(&total)
	l.Total, l.Evicted = true, c.Evicted()
	l.Clocks = &clocksLine{Known: clocks.Basis.String()}
	if clocks.Basis == flows.ClocksBothWays {
		l.Clocks.Offset, l.Clocks.Delay = new(toMicroseconds(clocks.Offset)), new(toMicroseconds(clocks.Delay))
	}
	return out.Encode(l)
}

// printComparison returns the flows that are shown.
func (o *options) printComparison(c *flows.Comparison) []*flows.Compared {
	all := slices.DeleteFunc(c.Flows(), func(f *flows.Compared) bool { return !o.choice.choosesComparison(f) })
	if o.top > 0 {
		all = all[:min(len(all), o.top)]
	}
	return all
}

func (c *choice) choosesComparison(f *flows.Compared) bool {
	return c.choosesAddresses(f.Src, f.Dst) && (len(c.qps) == 0 || slices.Contains(c.qps, f.DestQP)) &&
		(!c.trouble || f.Lost+f.Added+f.Duplicated[0]+f.Duplicated[1] > 0 || len(f.DSCP)+len(f.ECN) > 0)
}

func printComparison(out io.Writer, c *flows.Comparison, o *options) {
	row := "%-*s %8s %8s %8s %7s %7s %7s %10s %10s\n"
	name := len("FLOW")
	for _, f := range c.Flows() {
		name = max(name, len(f.FlowKey.String()))
	}
	name = min(name, 48)
	fmt.Fprintf(out, row, name, "FLOW", "AT A", "AT B", "BOTH", "LOST", "ADDED", "COPIES", "DELAY P50", "P99")
	line := func(key string, f *flows.Compared) {
		if len(key) > name {
			fmt.Fprintln(out, key)
			key = ""
		}
		p50, p99 := "-", "-"
		if d := &f.Delay; d.Count() > 0 {
			p50, p99 = formatDuration(d.Percentile(0.5)), formatDuration(d.Percentile(0.99))
		}
		count := func(n uint64) string { return formatScaled(float64(n)) }
		fmt.Fprintf(out, row, name, key, count(f.Packets[0]), count(f.Packets[1]), count(f.Same), count(f.Lost),
			count(f.Added),
			count(f.Duplicated[0]+f.Duplicated[1]), p50, p99)
		var printed []string
		changed := func(field string, all map[string]uint64) {
			for _, key := range slices.Sorted(maps.Keys(all)) {
				printed = append(printed,
					fmt.Sprintf("%s %s: %d", field, strings.Replace(key, ">", " to ", 1), all[key]))
			}
		}
		changed("DSCP", comparedLineOf(f).DSCP)
		changed("ECN", comparedLineOf(f).ECN)
		for point, n := range f.Duplicated {
			if n > 0 {
				printed = append(printed, fmt.Sprintf("%d copies at %c", n, 'A'+point))
			}
		}
		if f.Outside > 0 {
			printed = append(printed, fmt.Sprintf("%d of the lost when B did not capture", f.Outside))
		}
		for _, words := range wrapParts(printed, columns-2) {
			fmt.Fprintf(out, "  %s\n", words)
		}
	}
	for _, f := range o.printComparison(c) {
		line(f.FlowKey.String(), f)
	}
	total := c.Total()
	line("total", &total)
	if n := c.Evicted(); n > 0 {
		fmt.Fprintf(out, "Table full (-max-flows): only the total counts %s\n", cli.Count(n, "more flow"))
	}
	fmt.Fprintln(out, clocksText(c.Clocks()))
}

// clocksText returns the accuracy of delays, with the reason.
func clocksText(c flows.Clocks) string {
	switch {
	case c.Basis == flows.ClocksOneWay:
		return "Delays are as the two clocks have them: packets of one direction alone do not show whether these agree."
	case c.Basis == flows.ClocksUnknown:
		return "No packet was captured at both points."
	case c.Offset.Abs() <= c.Delay:
		return fmt.Sprintf("The clocks agree to about %v: packets of one direction are always later at B, those of "+
			"the other at A.", formatDuration(c.Offset.Abs()))
	}
	return fmt.Sprintf("B's clock is about %v ahead of A's, as the two directions together show: without that, the "+
		"least delay is %v.", formatDuration(c.Offset), formatDuration(c.Delay))
}
