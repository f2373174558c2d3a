package triage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/flows"
)

// discardNext has the next step by reason; "" is for all others.
var discardNext = map[string]string{
	"no_buffer_space": "The queue was full. Check that it marks with CE and sends PFC before it is full, and count " +
		"the senders that share it.",
	"red": "The switch dropped at its marking threshold. Check that the packets are ECN-capable and in a queue " +
		"with ECN.",
	"acl":         "A rule of the switch denies these packets. Check its access lists.",
	"pkt_too_big": "The packets exceed the MTU of the egress port. Compare it with the path MTU of the connections.",
	"":            "Look up the reason in the manual of the switch.",
}

// ExplainDiscards returns a verdict for each queue and reason of discarded packets, most packets first,
// from the results of [flows.Samples.Snapshot]. The switch is the party, because it reported the
// discards itself. The verdicts have no Frames, because the reports are not frames of the flows.
func ExplainDiscards(all []flows.Sampled) []Verdict {
	type group struct {
		at     flows.EgressQueue
		reason string
	}
	index := map[group]int{}
	var verdicts []Verdict
	var counts []uint64
	for i := range all {
		for _, d := range all[i].Discards {
			if !d.Agent.IsValid() { // the sum of further queues
				continue
			}
			g := group{d.EgressQueue, d.Reason}
			at, known := index[g]
			if !known {
				at = len(verdicts)
				index[g] = at
				verdicts = append(verdicts, Verdict{Cause: CauseDiscarded, Party: d.Agent.String(), Since: d.First,
					Until: d.Last, Next: cmp.Or(discardNext[d.Reason], discardNext[""])})
				counts = append(counts, 0)
			}
			v := &verdicts[at]
			counts[at] += d.Packets
			v.Flows, v.Joined = append(v.Flows, all[i].FlowKey), 1
			if d.First.Before(v.Since) {
				v.Since = d.First
			}
			if d.Last.After(v.Until) {
				v.Until = d.Last
			}
		}
	}
	for g, at := range index {
		v := &verdicts[at]
		v.Text = fmt.Sprintf("%s discarded %s of %s, from %s on: %s.", describeQueue(g.at),
			formatCount(counts[at], "packet"), formatCount(len(v.Flows), "flow"), v.Since.Format("15:04:05.000000"),
			g.reason)
		var terms []string
		for _, k := range v.Flows[:min(len(v.Flows), maxTerms)] {
			terms = append(terms, joinAnd(filterAddress("src", k.Src), filterAddress("dst", k.Dst), filterQP(k.DestQP)))
		}
		v.Filter = strings.Join(terms, " || ")
	}
	order := make([]int, len(verdicts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	sorted := make([]Verdict, len(verdicts))
	for i, at := range order {
		sorted[i] = verdicts[at]
	}
	return sorted
}

// describeQueue names the switch, the port and the queue in a sentence.
func describeQueue(q flows.EgressQueue) string {
	text := "The switch " + q.Agent.String()
	var where []string
	if q.Port != 0 {
		where = append(where, fmt.Sprintf("port %d", q.Port))
	}
	if q.HasQueue {
		where = append(where, fmt.Sprintf("queue %d", q.Queue))
	}
	if len(where) > 0 {
		text += " (" + strings.Join(where, ", ") + ")"
	}
	return text
}
