package experiment

import (
	"fmt"
	"slices"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/rocecn/rocecn/lab/sim"
)

// C4: two data centres and a WAN between them.
var longHaul = Experiment{
	ID: "C4", Quick: true, Long: true,
	Title: "between two data centres",
	Asks: "Which gain does it have over tens to thousands of kilometres, by place of the congested router? Hosts of " +
		"one data centre send to those of the other through leaves, spines, PE, P and PE; RED is sparse, as an " +
		"operator of long links sets it.",
	shown: []Shown{
		{goodput, 1}, {use, 1}, {later, -1}, {peak, -1}, {firstCut, -1}, {lost, -1}, {pauses, -1}, {jain, 1},
	},
	cases: func(s Size) (cases []Case) {
		for _, way := range chooseSize(s, []scenario.Time{ms, 3 * ms, 10 * ms}, []scenario.Time{ms}) {
			guards, places := []string{"unlimited"}, []float64{0.1, 0.9, 1}
			switch {
			case s == Quick:
				guards = append(guards, "PFC")
			case way == ms: // beyond it, a run takes three and ten times as long
				guards, places = append(guards, "16 MB", "PFC"), []float64{0.1, 0.5, 0.9, 1}
			}
			for _, x := range places {
				for _, guard := range guards {
					t := scenario.Default()
					t.Variants = []lab.Variant{lab.CNP, lab.FastCNP, lab.FCN, lab.PPFCAndCNP, lab.Oracle}
					host := chooseSize(s, scenario.Rate(25e9), 10e9)
					if way > 3*ms {
						host = 10e9 // slower hosts for fewer events, as a run takes ten times as long
					}
					t.Topology.Kind, t.Topology.Rate = "two-dc", host
					t.Topology.Leaves, t.Topology.Spines, t.Topology.Hosts = 2, 2, chooseSize(s, 8, 4)
					hosts := t.Topology.Leaves * t.Topology.Hosts
					t.Topology.Trunk = host * scenario.Rate(hosts) // no congestion before P
					t.Topology.WAN = 2 * t.Topology.Trunk          // which tunnels make longer
					t.Topology.Distance, t.Topology.Position = way, x
					unit := scenario.Size(float64(host) / 40e9 * 1e6) // of RED, for a flow's worth of rate
					t.Switch.KMin, t.Switch.KMax, t.Switch.PMax = unit, 10*unit, 0.05
					t.Reaction.Additive = host / 1000
					t.Host.Payload = chooseSize(s, 4096, 1024)
					place := fmt.Sprintf("P at %g", x)
					if x == 1 {
						t.Topology.Position = 0.5
						place = "egress data centre"
						t.Traffic = []scenario.Traffic{{Kind: "incast", Senders: hosts / 2, Jitter: way / 10}}
					} else {
						t.Topology.SlowRate = host * scenario.Rate(hosts) / 4
						t.Traffic = []scenario.Traffic{{Kind: "across", Jitter: way / 10}}
					}
					switch guard {
					case "16 MB":
						t.Switch.Buffer = 16_000_000
					case "PFC": // buffers of two round trips of a trunk, or Bifrost's 286 MB
						t.Variants = chooseSize(s, append([]lab.Variant{lab.None}, t.Variants...),
							[]lab.Variant{lab.None, lab.CNP, lab.FastCNP})
						t.Switch.PFC, t.Switch.Buffer, t.Switch.Alpha = true, 286_000_000, 4
						bits := 2*float64(t.Topology.Trunk)*float64(way)/1e12 + 2e6
						t.Switch.Headroom = scenario.Size(bits / 8)
					}
					if slices.Contains(t.Variants, lab.PPFCAndCNP) {
						t.Switch.PPFC = scenario.PPFC{
							Hold: unit, Stop: 10 * unit, Resume: unit / 2, Pause: ms, Interval: 50 * µs, To: "ingress",
						}
					}
					t.Warmup = max(200*ms, 200*way)
					t.Duration = t.Warmup + max(100*ms, 100*way)
					cases = append(cases, Case{Scenario: t, At: []Coordinate{
						length("one way", way), word("congested", place, int(x*10)), word("buffer", guard, len(guard)),
					}})
				}
			}
		}
		return withReactions(cases, both(hasCoordinate("one way", sim.Time(ms).String()),
			hasCoordinate("buffer", "unlimited")))
	},
}
