package experiment

import (
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/scenario"
)

const atHosts = "of those that met congestion, at a last hop"

// C3: a data centre with the sizes of messages that were published.
var leafSpine = Experiment{
	ID:    "C3",
	Title: "a data centre with published workloads",
	Asks: "Which messages of a leaf-spine network end sooner, and where is the congestion? Poisson arrivals between" +
		" random hosts, leaves 2:1 oversubscribed, PFC as in the example of SONiC.",
	shown: []Shown{
		{"slowdown, 0 to 10 KB, 99 %", -1}, {"slowdown, 10 to 100 KB, 99 %", -1},
		{"slowdown, 100 to 1000 KB, 99 %", -1}, {"slowdown, over 1000 KB, 99 %", -1},
		{"slowdown, 0 to 10 KB, 50 %", -1}, {"slowdown, over 1000 KB, 50 %", -1},
		{atHosts, 0}, {peak, -1}, {pauses, -1}, {notified, 0}, {remaining, 0},
	},
	cases: func(s Size) (cases []Case) {
		for _, sizes := range choose(s, []string{"WebSearch", "FB_Hadoop", "AliStorage2019"}, []string{"FB_Hadoop"}) {
			for _, load := range choose(s, []float64{0.3, 0.5, 0.8}, []float64{0.5}) {
				t := scenario.Default()
				t.Variants = []lab.Variant{lab.None, lab.CNP, lab.Proxy, lab.FastCNP, lab.Oracle, lab.HPCC}
				t.Topology.Kind = "leaf-spine"
				t.Topology.Leaves, t.Topology.Hosts = choose(s, 8, 4), choose(s, 16, 8)
				t.Topology.Spines = t.Topology.Hosts / 2
				scaled(t)
				sonic(t)
				t.Reaction.RTT = 15 * µs
				t.Traffic = []scenario.Traffic{{Kind: "poisson", Sizes: sizes, Load: load}}
				t.Warmup = ms / 2
				t.Duration = choose(s, 10*ms, 2*ms)
				cases = append(cases, Case{Scenario: t, At: []Coordinate{
					word("sizes", sizes, 0), number("load", load*100, "%"),
				}})
			}
		}
		return cases
	},
}
