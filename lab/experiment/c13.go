package experiment

import (
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/scenario"
)

// C13: collectives.
var collectives = Experiment{
	ID: "C13", Long: true,
	Title: "collectives of 128 hosts",
	Asks: "Does an iteration of training end sooner? All-reduce around a ring of neighbours, around one drawn by" +
		" lot, around a ring for each rail, and over a tree; all-to-all; and from each host to another one drawn by" +
		" lot; in a leaf-spine network without oversubscription: congestion comes from paths that hashes choose" +
		" alike.",
	shown: []Shown{{ended, -1}, {lastTime, -1}, {peak, -1}, {pauses, -1}, {atHosts, 0}, {notified, 0}, {remaining, 0}},
	cases: func(s Size) (cases []Case) {
		all := []scenario.Size{1e6, 8e6, 64e6}
		for _, c := range []struct {
			name, kind, order string
			steps             int             // of a ring of 128, which has 254
			sizes             []scenario.Size // at the small size: the least that meet congestion
		}{
			{"ring, 8 steps", "ring", "", 8, all[2:]},
			{"scattered ring, 8 steps", "ring", "scattered", 8, all[1:]},
			{"ring of each rail", "ring", "rails", 0, all[:2]},
			{"tree", "tree", "", 0, all[:2]},
			{"all-to-all", "all-to-all", "", 0, all[1:2]},
			{"permutation", "permutation", "", 0, all[:2]},
		} {
			for _, size := range chooseSize(s, all, c.sizes) {
				t := scenario.Default()
				t.Variants = []lab.Variant{lab.None, lab.CNP, lab.FastCNP, lab.Oracle, lab.HPCC}
				t.Topology.Kind = "leaf-spine"
				t.Topology.Leaves, t.Topology.Hosts, t.Topology.Spines = 16, 8, 8
				scaled(t)
				sonic(t)
				t.Reaction.RTT = 15 * µs
				t.Host.Payload = 4096
				hosts := t.Topology.Leaves * t.Topology.Hosts
				message := size
				if c.kind == "all-to-all" {
					message = max(size/scenario.Size(hosts), 1)
				}
				t.Traffic = []scenario.Traffic{
					{Kind: c.kind, Order: c.order, Steps: c.steps, Size: message, Jitter: µs},
				}
				t.Duration = 2*ms + scenario.Time(float64(size)/1e6*float64(ms))
				cases = append(cases, Case{Scenario: t, At: []Coordinate{
					word("collective", c.name, len(c.name)), number("data of a host", float64(size)/1e6, "MB"),
				}})
			}
		}
		return withNone(withReactions(cases, both(hasCoordinate("collective", "permutation"),
			hasCoordinate("data of a host", "8 MB"))))
	},
}
