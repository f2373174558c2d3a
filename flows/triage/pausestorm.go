package triage

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// Thresholds of a pause storm. Working PFC pauses for some ten microseconds from time to time.
const (
	stormXOFFs  = 5
	stormShare  = 4                      // inverse of the paused share of the time from the first XOFF to the last
	stormPaused = 500 * time.Microsecond // in all
)

// findPauseStorm finds MAC addresses that pause a link for a long time.
//
// Evidence: PFC or PAUSE frames that stop a priority for at least 500 µs in all, and for a fourth
// of the time from the first XOFF to the last.
//
// Counter-evidence: a paused switch pauses its neighbors. If several addresses pause like that, no
// party is named, because the first one in the capture may have been paused by another before. PFC
// stays on its link, so its absence from a capture proves nothing.
func findPauseStorm(v *view) {
	type storm struct {
		link     *flows.Link
		priority int // or flows.AllPriorities
		paused   time.Duration
		flows.PauseSign
	}
	var all []storm
	for i := range v.Links {
		l := &v.Links[i]
		for p := range l.PauseSigns {
			s := storm{link: l, priority: p, PauseSign: l.PauseSigns[p]}
			if s.paused = l.All.Paused; p != flows.AllPriorities {
				s.paused = l.Priorities[p].Paused
			}
			span := s.Until.Sub(s.Since)
			if s.Count >= stormXOFFs && s.paused >= stormPaused && s.paused*stormShare >= span {
				all = append(all, s)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b storm) int { return cmp.Compare(a.First, b.First) })
	first := &all[0]
	what := fmt.Sprintf("priority %d", first.priority)
	if first.priority == flows.AllPriorities {
		what = "all priorities"
	}
	text := fmt.Sprintf("%v paused %s of its link for %s in all, at most %s at a time, with %s from %s on.",
		first.link.Src, what, formatDuration(first.paused), formatDuration(first.Longest), formatCount(first.Count,
			"XOFF"), formatStart(first.Sign))
	var also []string
	for _, s := range all[1:] {
		if a := s.link.Src.String(); a != first.link.Src.String() && !slices.Contains(also, a) {
			also = append(also, a)
		}
	}
	party := first.link.Src.String()
	if len(also) > 0 {
		party = ""
		text += fmt.Sprintf(" It was the first in the capture, and %s did the same: a paused device pauses others.",
			formatList(also, 3))
	}
	if first.link.Assumed {
		text += " The times are for a link of 100 Gbit/s; set -link-rate for another one."
	}
	shown := limitFrames([]Frame{{first.First, "XOFF"}, {first.Last, "XOFF"}})
	v.addVerdict(Verdict{
		Cause: CausePauseStorm, Party: party, Since: first.Since, Until: first.Until,
		Text: text,
		Next: "Check the device with this MAC address: a host that receives too slowly, or a switch that is paused " +
			"itself; then capture on its other links.",
		Frames: shown,
		Filter: joinAnd("eth.src == "+first.link.Src.String(), "macc"),
	}, nil)
}
