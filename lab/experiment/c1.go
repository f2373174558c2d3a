package experiment

import (
	"fmt"
	"math"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/check"
	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/rocecn/rocecn/lab/sim"
)

// C1: five switches in a row, ten senders, one receiver. The congested port is the egress port of one of the switches.
// Its link is as slow as those of the hosts; at the last switch it is the link of the receiver.
var positions = Experiment{
	ID: "C1", Quick: true,
	Title: "position and distance",
	Asks: "Where on the path does a faster notification help, and how does that change with its length? Ten senders" +
		" of 40 Gbit/s to one receiver through five switches; the egress port of one of them is the narrow one.",
	shown: []Shown{{firstCut, -1}, {use, 1}, {later, -1}, {peak, -1}, {jain, 1}},
	cases: func(s Size) (cases []Case) {
		ways := []scenario.Time{10 * µs, 100 * µs, ms, 10 * ms}
		for _, way := range chooseSize(s, ways, ways[:3]) {
			hops := []int{1, 3, 5}
			switch {
			case s == Full && way <= ms:
				hops = []int{1, 2, 3, 4, 5}
			case way > ms: // a run takes ten times as long
				hops = []int{1, 5}
			}
			for _, hop := range hops {
				c := Case{At: []Coordinate{length("one way", way), number("hop", float64(hop), "")}}
				t := scenario.Default()
				paper40(t)
				t.Variants = []lab.Variant{lab.CNP, lab.Proxy, lab.FastCNP, lab.Oracle}
				t.Topology.Kind, t.Topology.Hosts, t.Topology.Switches = "line", 10, lineSwitches
				t.Topology.Trunk, t.Topology.Delay = 1600e9, way/(lineSwitches+1)/1000*1000
				if hop < lineSwitches {
					t.Topology.SlowHop, t.Topology.SlowRate = hop, 40e9
				}
				t.Traffic = []scenario.Traffic{{Kind: "incast", Senders: 10, Jitter: max(µs, way/10)}}
				t.Warmup = max(100*ms, 200*way)
				t.Duration = chooseSize(s, 2*t.Warmup, t.Warmup+max(60*ms, 200*way))
				if way > ms {
					t.Duration = t.Warmup + 100*way
				}
				c.Scenario = t
				cases = append(cases, c)
			}
		}
		return withReactions(cases, func(c *Case) bool {
			way, hop := c.At[0].Value, c.At[1].Value // over 10 µs all use the link; over 10 ms a run takes too long
			if s == Full && way >= 1000 && hasCoordinate("reaction", "ConnectX-like")(c) {
				return false // its queue would grow to gigabytes
			}
			return way == 100 || way == 1000 && (hop == 1 || s == Full)
		})
	},
	rows: func(r *Results) (rows []check.Row) {
		for _, c := range r.In("C1") {
			way, _ := c.Coordinate("one way")
			hop, _ := c.Coordinate("hop")
			link := sim.Time(way.Value*float64(µs)) / (lineSwitches + 1) / 1000 * 1000
			exact := map[lab.Variant]sim.Time{
				lab.CNP:     reactionTime(int(hop.Value), link, false),
				lab.FastCNP: reactionTime(int(hop.Value), link, true),
				lab.Oracle:  0,
			}
			for _, v := range []lab.Variant{lab.CNP, lab.FastCNP, lab.Oracle} {
				rows = r.appendRow(rows, c, v, firstCut, µsOf(exact[v]), 0)
			}
			if hop.Value != lineSwitches {
				continue
			}
			cnp, fast := r.Values(c, lab.CNP, firstCut), r.Values(c, lab.FastCNP, firstCut)
			if len(cnp) > 0 && len(fast) > 0 {
				// The remaining path is one link: a packet and the CNP on it. The receiver takes as long as the switch.
				// But the CNP is shorter than the Fast CNP on the links on which both travel, of which the last is
				// slow.
				longer := func(rate sim.Rate) sim.Time { return rate.Time(fastWire) - rate.Time(cnpWire) }
				want := µsOf(2*link + (40 * sim.Gbps).Time(dataWire) + (40 * sim.Gbps).Time(cnpWire) + pipeline -
					longer(40*sim.Gbps) - (lineSwitches-1)*longer(1600*sim.Gbps))
				rows = append(rows, check.Between(c.Name+": lead of a Fast CNP at the last hop", "µs",
					want, want-1e-6, want+1e-6, cnp[0]-fast[0]))
			}
		}
		return rows
	},
}

const (
	lineSwitches = 5
	dataWire     = 1024 + 82 + 20
	cnpWire      = 80 + 18 + 20
	fastWire     = 104 + 18 + 20
	nodeDelay    = sim.Microsecond // of switch, receiver and sender
	pipeline     = 600 * sim.Nanosecond
)

// reactionTime returns the time from the decision at a hop of the line until the sender's rate changes: the sum of the
// delays of the links, of the frames on them and of the nodes.
func reactionTime(hop int, link sim.Time, direct bool) sim.Time {
	rate := func(i int) sim.Rate { // of the link after switch i; 0 is that of the sender
		if i == 0 || i == hop || i == lineSwitches {
			return 40 * sim.Gbps
		}
		return 1600 * sim.Gbps
	}
	back := func(from int, octets int64) (t sim.Time) { // from the link after a switch to the sender
		for i := from; i >= 0; i-- {
			t += rate(i).Time(octets) + link
			if i > 0 { // it ends at a switch
				t += pipeline
			}
		}
		return t
	}
	if direct {
		return nodeDelay + back(hop-1, fastWire) + nodeDelay
	}
	t := sim.Time(0)
	for i := hop; i <= lineSwitches; i++ {
		t += rate(i).Time(dataWire) + link
		if i < lineSwitches {
			t += pipeline
		}
	}
	return t + nodeDelay + back(lineSwitches, cnpWire) + nodeDelay
}

func µsOf(t sim.Time) float64 { return float64(t) / float64(sim.Microsecond) }

// appendRow appends the comparison of a figure with the expected value, within a relative tolerance. Tolerance 0 is
// exact to the picosecond, apart from rounding in floating point.
func (r *Results) appendRow(rows []check.Row, c *CaseText, v lab.Variant, figure string, want,
	share float64) []check.Row {
	values := r.Values(c, v, figure)
	if len(values) == 0 {
		return rows
	}
	d := max(math.Abs(want)*share, 1e-7)
	return append(rows, check.Between(fmt.Sprintf("%s, %v: %s", c.Name, v, figure), Unit(figure), want, want-d, want+d,
		values...))
}

// C1a: the same question in the setting of a model by packets that was written before this laboratory and apart from
// it: one bottleneck, at a fraction x of the way.
var model = Experiment{
	ID: "C1a", Quick: true,
	Title: "position, against a model of one bottleneck",
	Asks: "Does the laboratory agree with a separate model, of one queue and packets of 1,000 octets, about the " +
		"effect of the position of the bottleneck? Ten senders of 40 Gbit/s, paper's parameters, steady state.",
	shown: []Shown{{use, 1}, {later, -1}, {firstCut, -1}},
	cases: func(s Size) (cases []Case) {
		for _, way := range []scenario.Time{100 * µs, ms} {
			for _, x := range chooseSize(s, []float64{0.01, 0.25, 0.5, 0.75, 0.99}, []float64{0.01, 0.5, 0.99}) {
				t := scenario.Default()
				paper40(t)
				instant(t)
				t.Variants = []lab.Variant{lab.CNP, lab.FastCNP, lab.Oracle}
				t.Host.Payload = 856 // 1,000 octets on the wire between the PEs
				t.Topology.Kind, t.Topology.Hosts, t.Topology.Delay = "wan", 10, 0
				t.Topology.Trunk, t.Topology.SlowRate = 1600e9, 40e9
				t.Topology.Distance, t.Topology.Position = way, x
				t.Traffic = []scenario.Traffic{{Kind: "across", Jitter: way / 10}}
				t.Warmup = chooseSize(s, max(100*ms, 300*way), max(60*ms, 150*way))
				t.Duration = 2 * t.Warmup
				cases = append(cases, Case{
					At: []Coordinate{length("one way", way), number("x", x, "")}, Scenario: t,
				})
			}
		}
		return cases
	},
	rows: func(r *Results) (rows []check.Row) {
		for _, c := range r.In("C1a") {
			way, _ := c.Coordinate("one way")
			x, _ := c.Coordinate("x")
			for _, m := range modelled {
				if m.way == way.Value && (m.x == x.Value || m.v == lab.CNP) {
					rows = r.appendRow(rows, c, m.v, use, m.use, 0.1)
					rows = r.appendRow(rows, c, m.v, later, m.peak, 0.1)
				}
			}
		}
		return rows
	},
}

// modelled holds the results of the model: use of the link in percent, and the peak of the queue in KB.
var modelled = []struct {
	way  float64 // µs
	v    lab.Variant
	x    float64
	use  float64
	peak float64
}{
	{100, lab.FastCNP, 0.01, 100, 207}, {1000, lab.FastCNP, 0.01, 99.8, 222},
	{100, lab.FastCNP, 0.25, 96.9, 243}, {1000, lab.FastCNP, 0.25, 68.7, 650},
	{100, lab.FastCNP, 0.5, 92.4, 278}, {1000, lab.FastCNP, 0.5, 59.4, 1300},
	{100, lab.FastCNP, 0.75, 88.2, 314}, {1000, lab.FastCNP, 0.75, 57.6, 2200},
	{100, lab.FastCNP, 0.99, 84.6, 347}, {1000, lab.FastCNP, 0.99, 58.6, 3280},
	{100, lab.CNP, 0, 84.4, 350}, {1000, lab.CNP, 0, 58.3, 3320},
}
