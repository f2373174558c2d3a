package experiment

import (
	"slices"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/scenario"
)

// withReactions returns cases with the same cases for two more reaction points: the paper's DCQCN with five times the
// R_AI, and the ConnectX-like one with the interval between notifications that its timers belong to. A result that
// holds for one of them only is one of the reaction point, not of the signal. keep chooses among the new cases.
func withReactions(cases []Case, keep func(c *Case) bool) []Case {
	for _, c := range slices.Clone(cases) {
		fast := otherReaction(c, word("reaction", "R_AI ×5", 1))
		additive := fast.Scenario.Reaction.Additive
		if additive == 0 {
			additive = paperAdditive
		}
		fast.Scenario.Reaction.Additive = 5 * additive
		card := otherReaction(c, word("reaction", "ConnectX-like", 2))
		card.Scenario.Reaction = scenario.Reaction{Kind: "connectx"}
		card.Scenario.Host.Interval = scenario.ConnectXInterval
		for _, other := range []Case{fast, card} {
			if keep(&other) {
				cases = append(cases, other)
			}
		}
	}
	return cases
}

// paperAdditive is R_AI of the paper.
const paperAdditive = scenario.Rate(40e6)

// otherReaction returns a copy of a case with another coordinate, and only the variants that depend on the reaction.
func otherReaction(c Case, at Coordinate) Case {
	s := *c.Scenario
	s.Variants = slices.DeleteFunc(slices.Clone(s.Variants), func(v lab.Variant) bool {
		return !slices.Contains([]lab.Variant{lab.CNP, lab.FastCNP, lab.FastCNPMarks, lab.Oracle}, v)
	})
	s.Switch.PPFC, s.Reaction.RTT = scenario.Default().Switch.PPFC, 0
	c.Scenario, c.At = &s, append(slices.Clone(c.At), at)
	return c
}

// withNone adds the variant without control to the cases of other reactions, to show the cost of each reaction.
func withNone(cases []Case) []Case {
	for i := range cases {
		if s := cases[i].Scenario; !slices.Contains(s.Variants, lab.None) {
			s.Variants = append([]lab.Variant{lab.None}, s.Variants...)
		}
	}
	return cases
}

// always chooses every case for [withReactions].
func always(*Case) bool { return true }

// hasCoordinate returns a function that chooses the cases with a coordinate.
func hasCoordinate(name, text string) func(c *Case) bool {
	return func(c *Case) bool {
		return slices.ContainsFunc(c.At, func(at Coordinate) bool { return at.Name == name && at.Text == text })
	}
}

// both returns a function that chooses the cases that two functions choose.
func both(a, b func(c *Case) bool) func(c *Case) bool {
	return func(c *Case) bool { return a(c) && b(c) }
}
