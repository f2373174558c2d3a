package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/scenario"
)

// C14: many sets of thresholds, to separate the benefit of the signal from the benefit of tuning.
var frontiers = Experiment{
	ID: "C14", Long: true,
	Title: "frontiers over thresholds",
	Asks: "Could tuning have done as much as the faster signal? Each variant with a grid of KMin, KMax and PMax; of" +
		" each those points count than which no other has both more use of the link and a lower peak.",
	shown: []Shown{{use, 1}, {later, -1}, {high, -1}, {jain, 1}},
	cases: func(s Size) (cases []Case) {
		for _, place := range networks {
			for _, kmin := range []scenario.Size{5_000, 50_000, 500_000} {
				for _, wide := range []scenario.Size{4, 40} {
					for _, pmax := range chooseSize(s, []float64{0.01, 0.05, 0.2, 1}, []float64{0.01, 0.2}) {
						t := scenario.Default()
						paper40(t)
						t.Variants = []lab.Variant{lab.CNP, lab.FastCNP, lab.Oracle}
						t.Switch.KMin, t.Switch.KMax, t.Switch.PMax = kmin, kmin*wide, pmax
						x, known := map[string]float64{"WAN near": 0.01, "WAN middle": 0.5, "WAN far": 0.99}[place]
						way := chooseSize(s, ms, 200*µs)
						if known {
							t.Topology.Kind, t.Topology.Hosts, t.Topology.Delay = "wan", 10, 0
							t.Topology.Trunk, t.Topology.SlowRate = 1600e9, 40e9
							t.Topology.Distance, t.Topology.Position = way, x
							t.Traffic = []scenario.Traffic{{Kind: "across", Jitter: way / 10}}
						} else {
							t.Topology.Kind, t.Topology.Hosts, way = "star", 33, 2*µs
							t.Traffic = []scenario.Traffic{{Kind: "incast", Senders: 32, Jitter: µs}}
						}
						t.Warmup = chooseSize(s, max(100*ms, 150*way), 60*ms)
						t.Duration = 2 * t.Warmup
						cases = append(cases, Case{Scenario: t, At: []Coordinate{
							word("network", place, len(place)), number("KMin", float64(kmin)/1000, "KB"),
							number("KMax", float64(kmin*wide)/1000, "KB"), number("PMax", pmax*100, "%"),
						}})
					}
				}
			}
		}
		return cases
	},
}

// networks are those of C14.
var networks = []string{"incast", "WAN near", "WAN middle", "WAN far"}

// A Point is the result of a variant with one set of thresholds.
type Point struct {
	Case *CaseText
	Use  float64 // of the link, percent
	Peak float64 // after the warmup, KB
}

// Frontier returns the points of a variant in a network of C14 than which no other of its points has both more use
// and a lower peak, by use. Points that are not steady are left out.
func (r *Results) Frontier(network string, v lab.Variant) (best []Point) {
	var all []Point
	for _, c := range r.In(frontiers.ID) {
		if at, _ := c.Coordinate("network"); at.Text != network {
			continue
		}
		u, _, _, ok1 := r.Median(c, v, use)
		p, _, _, ok2 := r.Median(c, v, later)
		if ok1 && ok2 && r.Steadiness(c, v, use).IsShown() && r.Steadiness(c, v, later).IsShown() {
			all = append(all, Point{c, u, p})
		}
	}
	slices.SortFunc(all, func(a, b Point) int { // the most use first, of these the lowest peak
		if a.Use != b.Use {
			return int(math.Copysign(1, b.Use-a.Use))
		}
		return int(math.Copysign(1, a.Peak-b.Peak))
	})
	low := math.Inf(1)
	for _, p := range all {
		if p.Peak < low {
			low = p.Peak
			best = append(best, p)
		}
	}
	slices.Reverse(best)
	return best
}

// Thresholds returns the thresholds of a point in words.
func (p *Point) Thresholds() string {
	text := ""
	for _, name := range []string{"KMin", "KMax", "PMax"} {
		at, _ := p.Case.Coordinate(name)
		text += fmt.Sprintf("%s %s, ", name, at.Text)
	}
	return text[:max(len(text)-2, 0)]
}
