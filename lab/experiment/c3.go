package experiment

import (
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/scenario"
)

const (
	atHosts   = "congested packets, at a last hop"
	atUplinks = "at a leaf's uplink"
	atUplink  = "at the uplink with the most"
)

// mix is the load of a data centre, without bursts, and whether there are some.
type mix struct {
	load   float64
	bursts bool
}

// C3: a data centre with the sizes of messages that were published.
var leafSpine = Experiment{
	ID: "C3", Long: true,
	Title: "a data centre with published workloads",
	Asks: "Which messages of a leaf-spine network end sooner, and where is the congestion? Poisson arrivals between" +
		" random hosts, leaves 2:1 oversubscribed, PFC as in the example of SONiC; alone, and with bursts of 2 % load" +
		" in which 60 hosts send 64 KB each to one.",
	shown: []Shown{
		{"slowdown, 0 to 10 KB, 99 %", -1}, {"slowdown, 10 to 100 KB, 99 %", -1},
		{"slowdown, 100 to 1000 KB, 99 %", -1}, {"slowdown, over 1000 KB, 99 %", -1},
		{"slowdown, 0 to 10 KB, 50 %", -1}, {"slowdown, over 1000 KB, 50 %", -1},
		{atHosts, 0}, {atUplinks, 0}, {atUplink, 0}, {peak, -1}, {pauses, -1}, {notified, 0}, {remaining, 0},
		{"unfinished, 0 to 10 KB", 0}, {"unfinished, 10 to 100 KB", 0}, {"unfinished, 100 to 1000 KB", 0},
		{"unfinished, over 1000 KB", 0},
	},
	cases: func(s Size) (cases []Case) {
		for _, sizes := range chooseSize(s, []string{"WebSearch", "FB_Hadoop", "AliStorage2019"},
			[]string{"FB_Hadoop"}) {
			for _, c := range chooseSize(s, []mix{{0.3, false}, {0.5, false}, {0.8, false}, {0.3, true}, {0.5, true}},
				[]mix{{0.5, false}, {0.5, true}}) {
				t := scenario.Default()
				t.Variants = []lab.Variant{lab.None, lab.CNP, lab.Proxy, lab.FastCNP, lab.Oracle, lab.HPCC}
				t.Topology.Kind = "leaf-spine"
				t.Topology.Leaves, t.Topology.Hosts = 8, chooseSize(s, 16, 8)
				t.Topology.Spines = t.Topology.Hosts / 2
				scaled(t)
				sonic(t)
				t.Reaction.RTT = 15 * µs
				t.Traffic = []scenario.Traffic{{Kind: "poisson", Sizes: sizes, Load: c.load}}
				with := word("bursts", "none", 0)
				if c.bursts {
					with = word("bursts", "60 to 1", 1)
					t.Traffic = append(t.Traffic, scenario.Traffic{Kind: "bursts", Senders: 60, Size: 64e3, Load: 0.02})
				}
				t.Warmup = ms / 2
				t.Duration = chooseSize(s, 10*ms, 2*ms)
				cases = append(cases, Case{Scenario: t, At: []Coordinate{
					word("sizes", sizes, 0), number("load", c.load*100, "%"), with,
				}})
			}
		}
		return cases
	},
}
