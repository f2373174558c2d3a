package flows

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/sflow"
	"github.com/rocecn/rocecn/flows"
)

// queueOf returns the egress queue of a sample of an agent.
func queueOf(s *sflow.Sample, agent netip.Addr) flows.QueueSample {
	return flows.QueueSample{
		EgressQueue: flows.EgressQueue{Agent: agent, Port: s.Output, Queue: s.Queue, HasQueue: s.HasQueue},
		Depth:       s.Depth, Delay: time.Duration(s.Delay), HasDepth: s.HasDepth, HasDelay: s.HasDelay}
}

// maxReason is the maximum length of a reason that comes as a text.
const maxReason = 64

// trapReasons are the reasons for traps of the kernel's devlink with another name, from the comments of drop_reason in
// sflow_drops.txt.
var trapReasons = map[string]string{"tail_drop": "no_buffer_space", "early_drop": "red",
	"ingress_flow_action_drop": "acl", "egress_flow_action_drop": "acl", "ttl_value_is_too_small": "ttl_exceeded",
	"mtu_value_is_too_small": "pkt_too_big", "reject_route": "dst_net_prohibited", "ipv4_lpm_miss": "dst_net_unknown",
	"ipv6_lpm_miss": "dst_net_unknown"}

// reasonOf returns the reason for which a packet was discarded. If the sample itself has none, it is the name that
// the kernel of the switch gives, in lower case.
func reasonOf(s *sflow.Sample) string {
	if s.Reason != sflow.DropUnknown {
		return s.Reason.String()
	}
	if reason := trapReasons[string(s.Trap)]; reason != "" {
		return reason
	}
	for _, name := range [][]byte{s.Trap, s.LinuxReason} {
		if len(name) > 0 && len(name) <= maxReason && isIdentifier(name) {
			return strings.ToLower(string(name))
		}
	}
	return s.Reason.String()
}

// isIdentifier reports whether a name from the network can be printed without quotes.
func isIdentifier(name []byte) bool {
	for _, c := range name {
		if c != '_' && c != '-' && !(c >= '0' && c <= '9') && !(c|0x20 >= 'a' && c|0x20 <= 'z') {
			return false
		}
	}
	return true
}

// A discardedCaptureLine is the JSON object of a capture with drop notifications.
type discardedCaptureLine struct {
	Capture   bool              `json:"capture"`
	Interval  *intervalLine     `json:"interval,omitempty"`
	Discarded map[string]uint64 `json:"discarded"`
}

type (
	// discardsLine counts the packets of a flow that were discarded at a queue.
	discardsLine struct {
		egressQueueLine
		Reason  string `json:"reason"`
		Packets uint64 `json:"packets"`
		First   string `json:"first"`
		Last    string `json:"last"`
	}
	egressQueueLine struct {
		Agent string  `json:"agent,omitempty"`
		Port  uint32  `json:"port,omitempty"`
		Queue *uint32 `json:"queue,omitempty"`
	}
	queueSampleLine struct {
		egressQueueLine
		Depth *uint32 `json:"depth,omitempty"`
		Delay *int64  `json:"delay_ns,omitempty"`
	}
)

func egressQueueLineOf(q *flows.EgressQueue) (l egressQueueLine) {
	if q.Agent.IsValid() {
		l.Agent, l.Port = q.Agent.String(), q.Port
	}
	if q.HasQueue {
		l.Queue = &q.Queue
	}
	return l
}

// discardedOf returns the discarded packets of a flow by reason, or nil.
func discardedOf(all []flows.Discards) map[string]uint64 {
	var by map[string]uint64
	for _, d := range all {
		if by == nil {
			by = map[string]uint64{}
		}
		by[d.Reason] += d.Packets
	}
	return by
}

func discardsLinesOf(all []flows.Discards) (lines []discardsLine) {
	for i := range all {
		d := &all[i]
		lines = append(lines, discardsLine{egressQueueLineOf(&d.EgressQueue), d.Reason, d.Packets, formatTime(d.First),
			formatTime(d.Last)})
	}
	return lines
}

// queueSampleLineOf returns nil if no switch reported a queue.
func queueSampleLineOf(q *flows.QueueSample) *queueSampleLine {
	if !q.HasDepth && !q.HasDelay {
		return nil
	}
	l := &queueSampleLine{egressQueueLine: egressQueueLineOf(&q.EgressQueue)}
	if q.HasDepth {
		l.Depth = &q.Depth
	}
	if q.HasDelay {
		l.Delay = new(q.Delay.Nanoseconds())
	}
	return l
}

// countDiscards returns the number of discarded packets.
func countDiscards(all []flows.Discards) (n uint64) {
	for _, d := range all {
		n += d.Packets
	}
	return n
}

// formatDiscards describes the discarded packets of a flow, by queue and reason.
func formatDiscards(all []flows.Discards) (words []string) {
	for i := range all {
		d := &all[i]
		text := cli.Count(d.Packets, "packet") + " discarded"
		if d.Agent.IsValid() {
			text += " by " + d.EgressQueue.String()
		}
		words = append(words, text+": "+d.Reason)
	}
	return words
}

// formatQueueSample describes the state of a queue.
func formatQueueSample(q *flows.QueueSample) string {
	text := q.EgressQueue.String()
	if q.HasDepth {
		text += ": " + formatScaled(float64(q.Depth)) + " octets"
	}
	if q.HasDelay {
		text += ": delay " + formatDuration(q.Delay)
	}
	return text
}

// formatReasons lists the numbers of discarded packets by reason in parentheses.
func formatReasons(by map[string]uint64) string {
	if len(by) == 0 {
		return ""
	}
	var words []string
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		words = append(words, fmt.Sprintf("%d %s", by[reason], reason))
	}
	return " (" + strings.Join(words, ", ") + ")"
}
