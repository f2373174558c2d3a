package experiment

import (
	"slices"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/rocecn/rocecn/lab/sim"
)

const (
	firstGoodput  = "goodput, traffic[0]"
	secondGoodput = "goodput, traffic[1]"
	unlabelled    = "packets without a label"
	unlearned     = "messages about unknown queue pairs"
	astray        = "those that reached a wrong flow"
)

// C5: flows to another data centre and flows within one at the same port.
var mixed = Experiment{
	ID:    "C5",
	Title: "short and long round trips at one port",
	Asks: "How does earlier notification of other flows affect flows that stay in a data centre? As many of each " +
		"share a port: either in the data centre of the senders, where the long flows leave for a WAN, or in " +
		"the other " +
		"one; or that of a router, from which a near and a far PE are reached.",
	shown: []Shown{{firstGoodput, 0}, {secondGoodput, 0}, {jain, 1}, {use, 1}, {later, -1}, {mean, 0}},
	cases: func(s Size) (cases []Case) {
		for _, way := range chooseSize(s, []scenario.Time{ms, 3 * ms}, []scenario.Time{ms}) {
			for _, near := range []bool{true, false} {
				t := scenario.Default()
				t.Variants = []lab.Variant{lab.CNP, lab.FCN, lab.FastCNP, lab.Oracle}
				const hosts = 8 // at each leaf; the links of a leaf have less than all of them
				t.Topology.Kind, t.Topology.Rate, t.Topology.Trunk, t.Topology.WAN = "two-dc", 10e9, 60e9, 400e9
				t.Topology.Leaves, t.Topology.Spines, t.Topology.Hosts = 2, 1, hosts
				t.Topology.Distance, t.Topology.Position = way, 0.5
				t.Switch.KMin, t.Switch.KMax, t.Switch.PMax = 50_000, 500_000, 0.05
				t.Reaction.Additive = 10e6
				long := scenario.Traffic{Kind: "pairs", Jitter: way / 10}
				short := long
				place := "the senders' side"
				if !near {
					place = "the receivers' side"
				}
				for i := range hosts / 2 {
					long.Pairs = append(long.Pairs, [2]int{i, 2*hosts + i})
					if near { // from the same leaf to the other one
						short.Pairs = append(short.Pairs, [2]int{hosts/2 + i, hosts + i})
					} else { // from the other leaf there to the same one
						short.Pairs = append(short.Pairs, [2]int{3*hosts + i, 2*hosts + hosts/2 + i})
					}
				}
				t.Traffic = []scenario.Traffic{long, short}
				t.Warmup = chooseSize(s, 200*ms, 100*ms)
				t.Duration = 2 * t.Warmup
				cases = append(cases, Case{Scenario: t, At: []Coordinate{
					length("one way", way), word("shared port", place, len(place)&1),
				}})
			}
			for _, near := range []bool{true, false} {
				t := scenario.Default()
				t.Variants = []lab.Variant{lab.CNP, lab.FCN, lab.FastCNP, lab.Oracle}
				const hosts = 8 // at each site
				t.Topology.Kind, t.Topology.Hosts, t.Topology.Rate, t.Topology.Trunk = "fork", hosts, 10e9, 400e9
				t.Topology.SlowRate, t.Topology.Distance = 40e9, way
				t.Switch.KMin, t.Switch.KMax, t.Switch.PMax = 50_000, 500_000, 0.05
				t.Reaction.Additive = 10e6
				long := scenario.Traffic{Kind: "pairs", Jitter: way / 10}
				short := long
				place := "a router's near the senders"
				for i := range hosts / 2 { // host 0 is at the first site, 8 at the far one, 16 at the near one
					far, here := [2]int{i, hosts + i}, [2]int{hosts/2 + i, 2*hosts + i}
					if !near {
						place = "a router's near the receivers"
						far, here = [2]int{far[1], far[0]}, [2]int{here[1], here[0]}
					}
					long.Pairs, short.Pairs = append(long.Pairs, far), append(short.Pairs, here)
				}
				t.Traffic = []scenario.Traffic{long, short}
				t.Warmup = chooseSize(s, 200*ms, 100*ms)
				t.Duration = 2 * t.Warmup
				cases = append(cases, Case{Scenario: t, At: []Coordinate{
					length("one way", way), word("shared port", place, 2+len(place)&1),
				}})
			}
		}
		return cases
	},
}

// silent returns the cases of C6 in which proxies and PEs forget: each flow sends a packet in 10 ms, and after the
// third answer its queue pair is known.
func silentSizes(s Size) (cases []Case) {
	for _, flows := range chooseSize(s, []int{100, 1000, 10_000, 100_000}, []int{100, 1000, 10_000}) {
		for _, idle := range []scenario.Time{0, 5 * ms} {
			t := scenario.Default()
			t.Variants = []lab.Variant{lab.CNP, lab.Proxy, lab.FCN}
			const hosts = 100 // at each end
			slow := scenario.Rate(flows) * 500_000
			t.Topology.Kind, t.Topology.Hosts, t.Topology.Rate, t.Topology.Trunk = "wan", hosts, 10e9, 400e9
			t.Topology.SlowRate, t.Topology.Distance, t.Topology.Position = slow, ms, 0.1
			t.Switch.KMin, t.Switch.PMax = scenario.Size(slow/8000), 0.2 // a millisecond of the link
			t.Switch.KMax, t.Switch.Buffer = 10*t.Switch.KMin, 64_000_000
			t.Switch.Cold, t.Switch.PairIdle, t.Switch.LabelIdle = true, idle, idle
			t.Traffic = []scenario.Traffic{{
				Kind: "across", Flows: flows / hosts, Size: 1024, Every: 10 * ms, Jitter: 10 * ms,
			}}
			t.Duration = 80 * ms
			remembers := "for minutes"
			if idle > 0 {
				remembers = sim.Time(idle).String()
			}
			cases = append(cases, Case{Scenario: t, At: []Coordinate{
				number("flows", float64(flows), ""), word("remembered", remembers, int(idle/ms)),
			}})
		}
	}
	return cases
}

// C6: flows that have no label of their own.
var labels = Experiment{
	ID:    "C6",
	Title: "more flows over a WAN than labels, and flows that are forgotten",
	Asks: "How do flows fare for which the ingress PE has no label? Their FCNs name label 0, which belongs to" +
		" no flow; the flows that have a label pay for all. Is it the same with selective repeat?",
	shown: []Shown{{goodput, 1}, {use, 1}, {later, -1}, {jain, 1}, {unlabelled, 0}, {notified, 0}, {firstCut, -1},
		{astray, -1}, {unlearned, -1}, {"FCNs", 0}, {"messages to proxies", 0}},
	cases: func(s Size) (cases []Case) {
		flows := chooseSize(s, 256, 32)
		for _, share := range chooseSize(s, []int{100, 75, 50, 25, 10}, []int{100, 75, 50}) {
			t := scenario.Default()
			t.Variants = []lab.Variant{lab.CNP, lab.FCN, lab.FastCNP}
			t.Topology.Kind, t.Topology.Hosts, t.Topology.Rate = "wan", flows, 1e9
			t.Topology.Trunk = scenario.Rate(flows) * 2e9
			t.Topology.SlowRate = scenario.Rate(flows) * 1e9 / 4
			t.Topology.Distance, t.Topology.Position = ms, 0.1
			t.Switch.KMin, t.Switch.KMax, t.Switch.PMax = 100_000, 1_000_000, 0.05
			t.Switch.Buffer = 64_000_000
			t.Switch.Labels = max(flows*share/100, 1)
			t.Reaction.Additive = 1e6
			t.Traffic = []scenario.Traffic{{Kind: "across", Jitter: ms / 10}}
			t.Warmup = chooseSize(s, 200*ms, 100*ms)
			t.Duration = 2 * t.Warmup
			c := Case{Scenario: t, At: []Coordinate{
				number("flows", float64(flows), ""), number("with a label", float64(share), "%"),
			}}
			cases = append(cases, c)
			if share == 75 || share == 50 { // with go-back-N the goodput collapses; with selective repeat as well?
				selective := *t
				selective.Host.Selective = true
				cases = append(cases, Case{Scenario: &selective, At: append(slices.Clone(c.At),
					word("retransmitted", "lost packets", 1))})
			}
		}
		return append(cases, silentSizes(s)...)
	},
}

// C7: a proxy that is beside the path, and that has to learn queue pairs first.
var proxies = Experiment{
	ID:    "C7",
	Title: "the proxy: its place and what it knows",
	Asks: "Does it matter that the congested switch notifies a proxy and not the sender, that the proxy is not " +
		"on the path, and that it knows no queue pairs at first?",
	shown: []Shown{
		{firstCut, -1}, {"onset to a flow's first cut, median", -1}, {peak, -1}, {unlearned, -1}, {notified, 0},
		{octets, -1},
	},
	cases: func(s Size) (cases []Case) {
		for _, away := range []int{0, 1, 2} {
			for _, cold := range []bool{false, true} {
				t := scenario.Default()
				paper40(t)
				t.Variants = []lab.Variant{lab.CNP, lab.Proxy, lab.FastCNP, lab.Oracle}
				t.Topology.Kind, t.Topology.Hosts, t.Topology.Switches = "line", 10, 3
				t.Topology.Trunk, t.Topology.SlowHop, t.Topology.SlowRate = 1600e9, 1, 40e9
				t.Topology.Delay, t.Topology.Proxy = 5*µs, away
				t.Switch.Cold = cold
				t.Traffic = []scenario.Traffic{{Kind: "incast", Senders: 10, Jitter: µs}}
				t.Duration = chooseSize(s, 50*ms, 20*ms)
				knows := "all queue pairs"
				if cold {
					knows = "none at first"
				}
				cases = append(cases, Case{Scenario: t, At: []Coordinate{
					number("links beside the path", float64(away), ""), word("knows", knows, len(knows)&1),
				}})
			}
		}
		return cases
	},
}

// C12: a flow through several congested ports in a row, each of which has a flow of its own.
var several = Experiment{
	ID:    "C12",
	Title: "several congested ports in a row",
	Asks: "A receiver answers the marks of all switches once in an interval; switches do not know of each other. " +
		"Is a flow that passes several congested ports cut several times, and which rate remains? Each port has one " +
		"other flow.",
	shown: []Shown{{firstGoodput, 1}, {secondGoodput, 0}, {notified, -1}, {jain, 1}, {use, 1}, {later, -1}},
	cases: func(s Size) (cases []Case) {
		for _, pmax := range []float64{0.01, 0.5} {
			for _, ports := range []int{1, 2, 3} {
				for _, join := range []scenario.Time{0, 50 * µs} {
					t := scenario.Default()
					paper40(t)
					t.Switch.PMax = pmax
					t.Variants = []lab.Variant{lab.CNP, lab.FastCNP, lab.Oracle}
					if join == 0 {
						t.Variants = append(t.Variants, lab.HPCC)
						t.Reaction.RTT = 40 * µs
					}
					t.Topology.Kind, t.Topology.Hosts, t.Topology.Switches = "line", 2, ports+1
					if ports > 1 {
						t.Topology.Between = 2
					}
					t.Topology.Trunk, t.Topology.Delay = 40e9, 2*µs
					t.Host.Join = join
					long := scenario.Traffic{Kind: "pairs", Jitter: µs, Pairs: [][2]int{{0, 2 * ports}}}
					short := scenario.Traffic{Kind: "pairs", Jitter: µs}
					for i := range ports { // from the second host at a switch to the second one at the next switch
						short.Pairs = append(short.Pairs, [2]int{2*i + 1, 2*i + 3})
					}
					t.Traffic = []scenario.Traffic{long, short}
					t.Warmup = 100 * ms
					t.Duration = chooseSize[scenario.Time](s, 4, 3) * t.Warmup
					cases = append(cases, Case{Scenario: t, At: []Coordinate{
						number("PMax", pmax*100, "%"), number("ports", float64(ports), ""),
						length("sender joins", join),
					}})
				}
			}
		}
		return withReactions(cases, func(c *Case) bool {
			return c.Scenario.Switch.PMax == 0.01 && c.Scenario.Topology.Switches > 2 && c.Scenario.Host.Join == 0
		})
	},
}
