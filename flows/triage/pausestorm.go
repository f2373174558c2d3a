package triage

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
)

// Thresholds of a pause storm. Working PFC pauses for some ten microseconds from time to time.
const (
	stormXOFFs  = 5
	stormShare  = 5                      // inverse of the paused share of the time from the first XOFF to the last
	stormPaused = 500 * time.Microsecond // in all

	// An endless pause is longer than any buffer needs to drain: at 100 Gbit/s, 20 ms are 250 MB.
	minEndless = 20 * time.Millisecond
)

// A storm is a priority of a link that is paused for a long time.
type storm struct {
	link     *flows.Link
	priority int // or flows.AllPriorities
	flows.Priority
	flows.PauseSign
}

// isEndless reports whether the link was paused without interruption until the end of the capture.
func (s *storm) isEndless(end time.Time) bool {
	return s.XON == 0 && s.Longest >= minEndless && !s.Since.Add(s.Longest).Before(end.Add(-time.Millisecond))
}

// findPauseStorm finds MAC addresses that pause a link for a long time.
//
// Evidence: at least five PFC or PAUSE frames that pause a priority for at least 500 µs in all, and for a
// fifth of the time from the first XOFF to the last.
//
// A pause of at least 20 ms without an interruption and without an XON until the end of the capture is an
// endless pause.
//
// A paused switch pauses its neighbours, so the address is named only if it is that of a host that
// sends: the source of the flows of one address. If several addresses pause like that, all are
// suspects, because the first one in the capture may have been paused by another before. PFC stays on
// its link, so its absence from a capture proves nothing.
func findPauseStorm(v *view) {
	var all []storm
	for i := range v.Links {
		l := &v.Links[i]
		for p := range l.PauseSigns {
			s := storm{link: l, priority: p, PauseSign: l.PauseSigns[p]}
			if s.Priority = l.All; p != flows.AllPriorities {
				s.Priority = l.Priorities[p]
			}
			span := s.Until.Sub(s.Since)
			if s.Count >= stormXOFFs && s.Paused >= stormPaused && s.Paused*stormShare >= span {
				all = append(all, s)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b storm) int { return cmp.Compare(a.First, b.First) })
	first := &all[0]
	var names, parts []string
	for _, s := range all {
		if s.link.Src.String() != first.link.Src.String() {
			continue
		}
		name := fmt.Sprint(s.priority)
		if s.priority == flows.AllPriorities {
			name = "all"
		}
		part := fmt.Sprintf("for %s in all", formatDuration(s.Paused))
		if span := s.Until.Sub(s.Since); span >= s.Paused {
			part += fmt.Sprintf(" (%s of the time)", formatShare(uint64(s.Paused), uint64(span)))
		}
		names = append(names, name)
		parts = append(parts, fmt.Sprintf("%s, at most %s at a time, with %s", part, formatDuration(s.Longest),
			formatCount(s.Count, "XOFF")))
	}
	what := "priority " + names[0]
	switch {
	case len(names) > 1:
		what = "priorities " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
		for i, name := range names {
			parts[i] = name + " " + parts[i]
		}
	case names[0] == "all":
		what = "all priorities"
	}
	text := fmt.Sprintf("%v paused %s of its link, from %s on: %s.", first.link.Src, what, formatStart(first.Sign),
		strings.Join(parts, "; "))
	var also []string
	for _, s := range all[1:] {
		if a := s.link.Src.String(); a != first.link.Src.String() && !slices.Contains(also, a) {
			also = append(also, a)
		}
	}
	verdict := Verdict{Cause: CausePauseStorm, Joined: len(all), Since: first.Since, Until: first.Until}
	next := "Check the device with this MAC address: a host that receives too slowly, or a switch that is paused " +
		"itself; then capture on its other links."
	switch from := first.link.Src.String(); {
	case len(also) > 0:
		verdict.Suspects = append([]string{from}, also...)
		text += fmt.Sprintf(" It was the first in the capture, and %s did the same: a paused device pauses others.",
			formatList(also, 3))
	case v.hostOf(from).IsValid():
		host := v.hostOf(from)
		verdict.Party = from
		verdict.Excluded = []string{fmt.Sprintf("a switch that is paused itself: the address is that of the host %v",
			host)}
		next = fmt.Sprintf("Find out why %v receives too slowly: its counters of full buffers and of PCIe, its "+
			"load, and the memory that its NIC writes to.", host)
	default:
		verdict.Suspects = []string{from, "a device that pauses the port with this address"}
	}
	if first.isEndless(v.end) {
		verdict.Cause = CauseEndlessPause
		text += " The pause did not end within the capture: nothing with this priority can be sent on the link."
		next = "Look for a cycle of switches that pause each other (a PFC deadlock), and for a host that has " +
			"stopped receiving; a PFC watchdog on the switches ends such a pause."
	}
	if first.link.Assumed {
		text += " The times are for a link of 100 Gbit/s; set -link-rate for another one."
	}
	verdict.Text, verdict.Next = text, next
	verdict.Frames = limitFrames([]Frame{{first.First, "XOFF"}, {first.Last, "XOFF"}})
	verdict.Filter = joinAnd("eth.src == "+first.link.Src.String(), "macc")
	v.addVerdict(verdict, nil)
}

// hostOf returns the host that has an Ethernet address: the source of the flows from it. It is invalid if there are
// several, as for a router, or none.
func (v *view) hostOf(mac string) (host netip.Addr) {
	for _, f := range v.flows {
		switch {
		case f.SrcMAC.String() != mac || f.Varies.SrcMAC:
		case host.IsValid() && host != f.Src:
			return netip.Addr{}
		default:
			host = f.Src
		}
	}
	return host
}

// joinBursts removes findings about congestion of flows to a device that paused its link: after a
// pause the packets that waited come together, so the burst is part of the pause storm.
func joinBursts(v *view) {
	i := slices.IndexFunc(v.verdicts, func(one Verdict) bool { return one.Cause.isAboutLink() })
	if i < 0 {
		return
	}
	storm := v.verdicts[i]
	mac := storm.Party
	if mac == "" {
		mac = storm.Suspects[0]
	}
	to := map[rocev2.FlowKey]bool{} // flows to the device
	for _, f := range v.flows {
		to[f.FlowKey] = f.DstMAC.String() == mac
	}
	kept, joined := v.verdicts[:0], 0
	for _, one := range v.verdicts {
		isBurst := (one.Cause == CauseIncast || one.Cause == CauseCongested) && len(one.Flows) > 0 &&
			spansOverlap(one.Since, one.Until, storm.Since, storm.Until.Add(sameMoment)) &&
			!slices.ContainsFunc(one.Flows, func(k rocev2.FlowKey) bool { return !to[k] })
		if !isBurst {
			kept = append(kept, one)
			continue
		}
		storm.Flows = append(storm.Flows, one.Flows...)
		storm.Octets += one.Octets
		storm.Joined += one.Joined
		joined += len(one.Flows)
	}
	if joined > 0 {
		storm.Text += " The packets that waited congested the path of " + formatCount(joined, "flow") +
			" to it afterwards."
	}
	for j := range kept {
		if kept[j].Cause.isAboutLink() {
			kept[j] = storm
			break
		}
	}
	v.verdicts = kept
}
