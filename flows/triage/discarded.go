package triage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
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
	var d discarded
	for i := range all {
		d.addFlow(all[i].FlowKey, all[i].Discards)
	}
	return d.explain()
}

// findDiscarded finds packets that switches discarded, as they report by sFlow.
func findDiscarded(v *view) {
	var d discarded
	about := map[rocev2.FlowKey]*flows.Flow{}
	for _, f := range v.flows {
		d.addFlow(f.FlowKey, f.Discards)
		about[f.FlowKey] = f
	}
	for _, verdict := range d.explain() {
		var of []*flows.Flow
		for _, k := range verdict.Flows {
			of = append(of, about[k])
		}
		verdict.Flows = nil
		v.addVerdict(verdict, of)
	}
}

// discarded are the discarded packets by queue and reason.
type discarded struct {
	groups []discardGroup
	index  map[discardKey]int
}

type discardKey struct {
	at     flows.EgressQueue
	reason string
}

type discardGroup struct {
	discardKey
	packets uint64
	verdict Verdict
}

// addFlow adds the discarded packets of a flow, except those of further queues, which are not known.
func (d *discarded) addFlow(k rocev2.FlowKey, all []flows.Discards) {
	for _, one := range all {
		if !one.Agent.IsValid() {
			continue
		}
		key := discardKey{one.EgressQueue, one.Reason}
		i, known := d.index[key]
		if !known {
			if i = len(d.groups); i == 0 {
				d.index = map[discardKey]int{}
			}
			d.index[key] = i
			d.groups = append(d.groups, discardGroup{discardKey: key, verdict: Verdict{
				Cause: CauseDiscarded, Party: one.Agent.String(), Since: one.First, Until: one.Last, Joined: 1,
				Next: cmp.Or(discardNext[one.Reason], discardNext[""])}})
		}
		g := &d.groups[i]
		g.packets += one.Packets
		v := &g.verdict
		v.Flows = append(v.Flows, k)
		if one.First.Before(v.Since) {
			v.Since = one.First
		}
		if one.Last.After(v.Until) {
			v.Until = one.Last
		}
	}
}

// explain returns the verdicts, those about most packets first.
func (d *discarded) explain() (all []Verdict) {
	slices.SortStableFunc(d.groups, func(a, b discardGroup) int { return cmp.Compare(b.packets, a.packets) })
	for i := range d.groups {
		g := &d.groups[i]
		v := &g.verdict
		v.Text = fmt.Sprintf("%s discarded %s of %s, from %s on: %s.", describeQueue(g.at),
			formatCount(g.packets, "packet"), formatCount(len(v.Flows), "flow"), v.Since.Format("15:04:05.000000"),
			g.reason)
		var terms []string
		for _, k := range v.Flows[:min(len(v.Flows), maxTerms)] {
			terms = append(terms, joinAnd(filterAddress("src", k.Src), filterAddress("dst", k.Dst), filterQP(k.DestQP)))
		}
		v.Filter = strings.Join(terms, " || ")
		all = append(all, *v)
	}
	return all
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
