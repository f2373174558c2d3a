package triage

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// trimmings are the packets to one receiver that a switch trimmed.
type trimmings struct {
	signs   []flows.Sign // one for each episode of each flow
	moments spans        // these episodes, extended by sameMoment
}

func trimmingsByReceiver(all []*flows.Flow) map[netip.Addr]*trimmings {
	out := map[netip.Addr]*trimmings{}
	for _, f := range all {
		for _, s := range f.Evidence.Trimmings {
			if out[f.Dst] == nil {
				out[f.Dst] = new(trimmings)
			}
			out[f.Dst].signs = append(out[f.Dst].signs, s)
			out[f.Dst].moments.add(s.Since.Add(-sameMoment), s.Until.Add(sameMoment))
		}
	}
	return out
}

// selectFlows returns the flows of which the losses belong to trimmed packets, because the queue that was full dropped
// packets as well: those that began and ended at a time of trimming, if at least half of the packets lost then were
// trimmed. t may be nil.
func (t *trimmings) selectFlows(lossy []*flows.Flow) (all []*flows.Flow) {
	if t == nil {
		return nil
	}
	var lost, trimmed uint64
	var seen flows.Sign
	for _, f := range lossy {
		s, delay := sumSigns([]*flows.Flow{f}, lossSigns...), longestDelay(f)
		s = addSigns(s, *f.Evidence.Sign(flows.SignReadRest))
		if s.Count == 0 || !t.moments.overlaps(s.Since.Add(-delay), s.Since) ||
			!t.moments.overlaps(s.Until.Add(-delay), s.Until) {
			continue
		}
		s.Since = s.Since.Add(-delay)
		n := countLosses(f)
		all, seen, lost = append(all, f), addSigns(seen, s), lost+n-min(n, f.Evidence.Sign(flows.SignTrimmed).Count)
	}
	for _, s := range t.signs {
		if spansOverlap(s.Since.Add(-sameMoment), s.Until.Add(sameMoment), seen.Since, seen.Until) {
			trimmed += s.Count
		}
	}
	if trimmed < lost {
		return nil
	}
	return all
}

// longestDelay returns the longest time from the loss of a packet of a flow to a sign of it.
func longestDelay(f *flows.Flow) time.Duration {
	return longestWait(f) + typicalRoundTrip([]*flows.Flow{f})
}

// withoutFlows returns the flows that are not among others, which are in the same order.
func withoutFlows(all, others []*flows.Flow) (out []*flows.Flow) {
	if len(others) == 0 {
		return all
	}
	for _, f := range all {
		if len(others) > 0 && f == others[0] {
			others = others[1:]
			continue
		}
		out = append(out, f)
	}
	return out
}
