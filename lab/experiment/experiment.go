// Package experiment measures the benefit of faster notification, in networks
// with variants that differ only in the notification of senders. [All] returns
// the experiments, each about one question; [Experiment.Cases] returns its
// cases, each a scenario with its variants and seeds. A [Plan] runs cases and
// returns [Results], which are printed as tables or as an HTML page.
//
// All variants of a case have the same random numbers, and at full size at
// least six seeds. Runs are independent, so the runs of a Plan can be divided
// among machines and merged.
package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/lab/check"
	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/rocecn/rocecn/lab/sim"
)

// A Size is the size of an experiment.
type Size uint8

// The sizes.
const (
	Full  Size = iota // as documented, with ten seeds, or six for long experiments and cases
	Quick             // smaller networks, fewer points, shorter, with six seeds
)

// String returns "full" or "quick".
func (s Size) String() string {
	if s == Quick {
		return "quick"
	}
	return "full"
}

// seeds returns the number of seeds of a size.
func (s Size) seeds() int {
	if s == Quick {
		return fewestSeeds
	}
	return 10
}

// chooseSize returns one of two values by size.
func chooseSize[T any](s Size, full, quick T) T {
	if s == Quick {
		return quick
	}
	return full
}

// An Experiment asks one question.
type Experiment struct {
	ID    string // C1 and so on
	Title string
	Asks  string // the question, and how it is answered
	Quick bool   // one of those that "quick" runs
	Long  bool   // at full size it takes long: six seeds

	cases func(s Size) []Case
	shown []Shown                      // the figures of its table
	rows  func(r *Results) []check.Row // expected results; nil for none
}

// A Case is one point of an experiment: a scenario, and where it stands.
type Case struct {
	Experiment string
	Name       string
	At         []Coordinate
	Scenario   *scenario.Scenario

	shown []Shown // the figures to keep of each run; nil for all
}

// A Coordinate is the value of one parameter of a case.
type Coordinate struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Text  string  `json:"text"` // the value with its unit
}

// All returns the experiments in order.
func All() []Experiment {
	return []Experiment{
		positions, model, incast, incastMessages, leafSpine, longHaul, mixed, labels, proxies, pausing, circle, byTrace,
		limits, deployment, several, collectives, frontiers, networkProperties, sins,
	}
}

// Chosen returns the experiments of these names: IDs, "all", or "quick" for those that are quick. "time" and
// "checks" are no experiments, but names that may stand beside them: see [Results.AddSeries] and package check.
func Chosen(names []string) ([]Experiment, error) {
	var chosen []Experiment
	add := func(e Experiment) {
		if !slices.ContainsFunc(chosen, func(c Experiment) bool { return c.ID == e.ID }) {
			chosen = append(chosen, e)
		}
	}
	for _, name := range names {
		some := name == "time" || name == "checks"
		for _, e := range All() {
			if name == e.ID || name == "all" || name == "quick" && e.Quick {
				some = true
				add(e)
			}
		}
		if !some {
			return nil, fmt.Errorf("%s is no experiment; there are %s, quick, all, time and checks", name,
				strings.Join(IDs(), ", "))
		}
	}
	return chosen, nil
}

// IDs returns the IDs of all experiments.
func IDs() (ids []string) {
	for _, e := range All() {
		ids = append(ids, e.ID)
	}
	return ids
}

// longCase is the simulated time from which on a case has six seeds at full size.
const longCase = 1000 * ms

// Cases returns the cases of an experiment. seeds replaces the number of seeds of the size; 0 does not.
func (e *Experiment) Cases(s Size, seeds int) []Case {
	cases := e.cases(s)
	for i := range cases {
		c := &cases[i]
		n := seeds
		if n == 0 {
			n = s.seeds()
			if s == Full && (e.Long || c.Scenario.Duration >= longCase) {
				n = fewestSeeds
			}
		}
		c.Experiment, c.shown = e.ID, e.shown
		var where []string
		for _, at := range c.At {
			where = append(where, strings.TrimSpace(at.Name+" "+at.Text))
		}
		c.Name = strings.Join(where, ", ")
		c.Scenario.Name = e.ID + ", " + e.Title + ": " + c.Name
		c.Scenario.Seeds = nil
		for seed := range n {
			c.Scenario.Seeds = append(c.Scenario.Seeds, uint64(seed+1))
		}
	}
	return cases
}

const (
	µs = scenario.Time(sim.Microsecond)
	ms = scenario.Time(sim.Millisecond)
)

// number returns a coordinate that is a number with a unit.
func number(name string, value float64, unit string) Coordinate {
	return Coordinate{name, value, strings.TrimSpace(fmt.Sprintf("%g %s", value, unit))}
}

// length returns a coordinate that is a time; its value is in microseconds.
func length(name string, t scenario.Time) Coordinate {
	return Coordinate{name, float64(t) / float64(µs), sim.Time(t).String()}
}

// word returns a coordinate that is a word; its value is a number for each.
func word(name, text string, value int) Coordinate { return Coordinate{name, float64(value), text} }

// paper40 sets RED and the reaction point as the paper of DCQCN has them for 40 Gbit/s.
func paper40(s *scenario.Scenario) {
	s.Topology.Rate = 40e9
	s.Switch.KMin, s.Switch.KMax, s.Switch.PMax = 5000, 200_000, 0.01
}

// instant sets the delays of switches and hosts to 0.
func instant(s *scenario.Scenario) {
	s.Switch.NotifyDelay, s.Switch.Pipeline, s.Host.CNPDelay, s.Host.ReactionDelay = 0, 0, 0, 0
}

// Shown is a figure that an experiment is about. Better is −1 if less of it is better, 1 if more is, 0 if neither.
type Shown struct {
	Figure string
	Better int
}
