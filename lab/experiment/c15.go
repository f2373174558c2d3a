package experiment

import (
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/scenario"
)

// C15: properties of networks that the other experiments leave out.
var networkProperties = Experiment{
	ID:    "C15",
	Title: "spraying, finite buffers, trimming, and queue pairs that remember their rate",
	Asks: "Does the gain depend on four properties that the other experiments do not have? Packets sprayed over all " +
		"spines, of which each sends its own Fast CNP; a buffer that loses packets at the start, with go-back-N and " +
		"with selective repeat; switches that trim these packets; messages that continue at the rate of the message " +
		"before them.",
	shown: []Shown{
		{goodput, 1}, {jain, 1}, {later, -1}, {peak, -1}, {notified, 0}, {lost, -1},
		{"packets trimmed", 0}, {ended, -1}, {meanTime, -1}, {remaining, -1},
		{"slowdown, 0 to 10 KB, 50 %", -1},
	},
	cases: func(s Size) (cases []Case) {
		for i, paths := range []string{"by hash", "sprayed"} { // eight flows of two leaves share four links to a third
			t := scenario.Default()
			t.Variants = []lab.Variant{lab.CNP, lab.FastCNP, lab.Oracle}
			t.Topology.Kind, t.Topology.Leaves, t.Topology.Spines, t.Topology.Hosts = "leaf-spine", 3, 4, 8
			t.Topology.Rate, t.Topology.Trunk = 10e9, 10e9
			t.Switch.KMin, t.Switch.KMax = 20_000, 80_000
			t.Host.Selective, t.Host.Spray = true, i == 1
			pairs := scenario.Traffic{Kind: "pairs", Jitter: 10 * µs}
			for j := range 4 {
				pairs.Pairs = append(pairs.Pairs, [2]int{j, 16 + j}, [2]int{8 + j, 20 + j})
			}
			t.Traffic = []scenario.Traffic{pairs}
			t.Warmup = 60 * ms
			t.Duration = chooseSize[scenario.Time](s, 4, 2) * t.Warmup
			cases = append(cases, Case{Scenario: t, At: []Coordinate{word("paths", paths, i)}})
		}
		for i, repeat := range []string{"all after a loss", "lost packets", "trimmed packets"} {
			// C1 at its first hop over 1 ms
			t := scenario.Default()
			paper40(t)
			t.Variants = []lab.Variant{lab.CNP, lab.FastCNP}
			t.Topology.Kind, t.Topology.Hosts, t.Topology.Switches = "line", 10, lineSwitches
			t.Topology.Trunk, t.Topology.Delay = 1600e9, ms/(lineSwitches+1)/1000*1000
			t.Topology.SlowHop, t.Topology.SlowRate = 1, 40e9
			t.Switch.Buffer, t.Switch.Trim = 12_000_000, i == 2
			t.Host.Timeout, t.Host.Selective = 16*ms, i > 0
			t.Traffic = []scenario.Traffic{{Kind: "incast", Senders: 10, Size: 10e6, Jitter: ms / 10}}
			t.Duration = chooseSize(s, 400*ms, 100*ms)
			cases = append(cases, Case{Scenario: t, At: []Coordinate{
				word("buffer", "12 MB", 0), word("retransmitted", repeat, i),
			}})
		}
		for i, rate := range []string{"the line's", "that of the message before"} {
			t := scenario.Default()
			t.Variants = []lab.Variant{lab.CNP, lab.FastCNP}
			t.Topology.Kind, t.Topology.Leaves, t.Topology.Hosts, t.Topology.Spines = "leaf-spine", 8, 8, 4
			scaled(t)
			sonic(t)
			t.Traffic = []scenario.Traffic{{Kind: "poisson", Sizes: "FB_Hadoop", Load: 0.5, Persistent: i == 1}}
			t.Warmup, t.Duration = ms/2, chooseSize(s, 10*ms, 2*ms)
			cases = append(cases, Case{Scenario: t, At: []Coordinate{word("first rate", rate, i)}})
		}
		return cases
	},
}
