package experiment

import (
	"fmt"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/rocecn/rocecn/lab/sim"
)

// C9: HPCC, told by acknowledgements or by Fast CNPs.
var byTrace = Experiment{
	ID:    "C9",
	Title: "HPCC by Fast CNP",
	Asks: "Can option 2 of a Fast CNP carry the data for HPCC? The trace that arrived has the ports before the " +
		"congested one; with the switch's own record it has that, too; and no Fast CNP says that a port has room.",
	shown: []Shown{
		{use, 1}, {mean, 0}, {high, 0}, {peak, -1}, {goodput, 1}, {firstCut, -1}, {jain, 1}, {octets, -1},
	},
	cases: func(s Size) (cases []Case) {
		for _, n := range chooseSize(s, []int{2, 16, 64}, []int{4, 16}) {
			for _, every := range []scenario.Time{30 * µs, 300 * µs} {
				t := scenario.Default()
				t.Variants = []lab.Variant{lab.HPCC, lab.HPCCFastCNP, lab.HPCCFastCNPOwn, lab.HPCCBoth}
				if every == 30*µs { // with 300 µs DCQCN does not control the queue: see C10
					t.Variants = append(t.Variants, lab.CNP, lab.FastCNP)
				}
				t.Topology.Kind, t.Topology.Hosts, t.Topology.Switches = "line", n, 3
				t.Topology.Trunk = 100e9 * scenario.Rate(n+1)
				t.Topology.SlowHop, t.Topology.SlowRate, t.Topology.Delay = 2, 100e9, 2*µs
				t.Host.Interval = every
				t.Reaction.RTT = 30 * µs
				t.Traffic = []scenario.Traffic{{Kind: "across", Jitter: µs}}
				t.Warmup = 20 * ms
				t.Duration = chooseSize[scenario.Time](s, 4, 2) * t.Warmup
				cases = append(cases, Case{Scenario: t, At: []Coordinate{
					number("flows", float64(n), ""), length("one Fast CNP in", every),
				}})
			}
		}
		return withReactions(cases, hasCoordinate("one Fast CNP in", sim.Time(30*µs).String()))
	},
}

// C11: senders of which only some understand Fast CNPs.
var deployment = Experiment{
	ID:    "C11",
	Title: "a part of the senders understands Fast CNPs",
	Asks: "Do senders that are told by Fast CNPs lose to those that are told by CNPs, as they hear sooner? Sixteen " +
		"senders to one host, traffic[0] from those that do not understand Fast CNPs, traffic[1] from the others.",
	shown: []Shown{
		{firstGoodput, 0}, {secondGoodput, 0}, {jain, 1}, {use, 1}, {later, -1}, {peak, -1}, {notified, 0},
		{"onset to a flow's first cut, median", 0},
	},
	cases: func(s Size) (cases []Case) {
		const senders = 16
		for _, leg := range []scenario.Time{µs, 20 * µs} {
			for _, c := range []struct {
				old     int
				join    scenario.Time
				rejects bool
			}{
				{0, 0, false}, {4, 0, false}, {8, 0, false}, {8, 45 * µs, false}, {8, 0, true}, {12, 0, false},
				{16, 0, false},
			} {
				old := c.old
				t := scenario.Default()
				paper40(t)
				t.Variants = []lab.Variant{lab.CNP, lab.FastCNP, lab.FastCNPMarks}
				t.Topology.Kind, t.Topology.Hosts, t.Topology.Switches = "line", senders, 2
				t.Topology.Trunk, t.Topology.SlowHop, t.Topology.SlowRate = 1600e9, 1, 40e9
				t.Topology.Delay = leg
				t.Host.Incapable, t.Host.Join, t.Host.Rejects = old, c.join, c.rejects
				half := []scenario.Traffic{{Kind: "pairs", Jitter: 10 * µs}, {Kind: "pairs", Jitter: 10 * µs}}
				for i := range senders {
					which := 1
					if i < old {
						which = 0
					}
					half[which].Pairs = append(half[which].Pairs, [2]int{i, senders + i})
				}
				for _, h := range half {
					if len(h.Pairs) > 0 {
						t.Traffic = append(t.Traffic, h)
					}
				}
				t.Warmup = 100 * ms
				t.Duration = chooseSize[scenario.Time](s, 3, 2) * t.Warmup
				at := []Coordinate{
					length("links of", leg), number("do not understand", float64(old), fmt.Sprintf("of %d", senders)),
					length("sender joins", c.join),
				}
				if c.rejects {
					at = append(at, word("and say so", "", 1))
				}
				cases = append(cases, Case{Scenario: t, At: at})
			}
		}
		return withReactions(cases, func(c *Case) bool {
			return c.Scenario.Host.Incapable == senders/2 && c.Scenario.Host.Join == 0 && !c.Scenario.Host.Rejects
		})
	},
}

// C10: the limits of notifications.
var limits = Experiment{
	ID: "C10", Long: true,
	Title: "cost and limits of notifications",
	Asks: "Drafts demand limits for the notifications of a switch. At which limit, interval or loss is a Fast CNP no " +
		"better than a CNP? Incast of many senders, 100 Gbit/s; each case changes one thing.",
	shown: []Shown{
		{peak, -1}, {"onset to a flow's first cut, median", -1}, {notified, 0}, {octets, -1}, {"congested packets", 0},
	},
	cases: func(s Size) (cases []Case) {
		senders := chooseSize(s, []int{32, 128}, []int{32})
		add := func(n int, what Coordinate, set func(*scenario.Scenario)) {
			t := scenario.Default()
			t.Variants = []lab.Variant{lab.CNP, lab.Proxy, lab.FastCNP, lab.Oracle}
			t.Topology.Kind, t.Topology.Hosts = "star", n+1
			t.Reaction.Additive = 100e6
			t.Switch.Queue = 1_000_000_000 // of a queue that only grows
			t.Traffic = []scenario.Traffic{{Kind: "incast", Senders: n, Jitter: µs}}
			t.Duration = 10 * ms
			set(t)
			cases = append(cases, Case{Scenario: t, At: []Coordinate{number("senders", float64(n), ""), what}})
		}
		for _, n := range senders {
			add(n, word("change", "none", 0), func(*scenario.Scenario) {})
			for _, every := range chooseSize(s, []scenario.Time{4 * µs, 10 * µs, 200 * µs, ms},
				[]scenario.Time{4 * µs, ms}) {
				add(n, length("interval of a flow", every), func(t *scenario.Scenario) { t.Host.Interval = every })
			}
			// A limit of one node: the switch for Fast CNPs, the receiver for CNPs.
			for _, most := range chooseSize(s, []float64{1e5, 3e5, 1e6, 3e6, 1e7}, []float64{1e5, 1e6}) {
				add(n, number("notifications of a node", most, "a second"), func(t *scenario.Scenario) {
					t.Switch.NotifyLimit, t.Host.CNPLimit = most, most
				})
			}
			for _, loss := range chooseSize(s, []float64{0.001, 0.01, 0.1}, []float64{0.1}) {
				add(n, number("lost", loss*100, "%"), func(t *scenario.Scenario) { t.Switch.NotifyLoss = loss })
			}
			for _, wait := range chooseSize(s, []scenario.Time{3 * µs, 10 * µs, 30 * µs, 100 * µs},
				[]scenario.Time{10 * µs, 100 * µs}) {
				add(n, length("a switch takes", wait), func(t *scenario.Scenario) { t.Switch.NotifyDelay = wait })
			}
			add(n, word("priority", "of data", 3), func(t *scenario.Scenario) { t.Host.NotificationPriority = 3 })
			// The way back to each sender is loaded, too, by two flows from other hosts: notifications wait after their
			// packets if they have the priority of data.
			for priority, name := range []string{3: "of data", 6: "above data"} {
				if name == "" {
					continue
				}
				add(n, word("way back loaded, priority", name, priority), func(t *scenario.Scenario) {
					t.Topology.Hosts = 3*n + 1
					t.Duration = 3 * ms
					t.Host.NotificationPriority = uint8(priority)
					load := scenario.Traffic{Kind: "pairs", Jitter: µs, Rate: 60e9}
					for i := range n {
						load.Pairs = append(load.Pairs, [2]int{n + i, i}, [2]int{2*n + i, i})
					}
					t.Traffic = append(t.Traffic, load)
				})
			}
		}
		return withReactions(cases, func(c *Case) bool {
			return c.At[1].Text == "none" || c.Scenario.Switch.NotifyDelay == 10*µs
		})
	},
}
