package node_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/stretchr/testify/require"
)

// How a Decision is counted, and which Action it has then.
func TestDecided(t *testing.T) {
	type decision = node.Decision
	for _, row := range []struct {
		name   string
		d      decision
		action node.Action
		want   string // each once
	}{
		{"nothing", decision{Packet: message.Data}, node.Nothing, ""},
		{"refused", decision{Reason: node.Limited, Message: message.CNP}, node.Refused, "refused_limited"},
		{"forwarded, no label", decision{Action: node.Forwarded, Reason: node.TableFull}, node.Forwarded,
			"forwarded refused_table_full"},
		{"sent", decision{Action: node.Sent, Message: message.FCN}, node.Sent, "sent_fcn"},
		{"sent and marked", decision{Action: node.Sent, Message: message.FastCNP, MarkECN: true}, node.Sent,
			"marked sent_fastcnp"},
		{"marked", decision{Action: node.Marked, MarkECN: true}, node.Marked, "marked"},
		{"marked, and a reason", decision{Action: node.Marked, Reason: node.NoProxy, MarkECN: true}, node.Marked,
			"marked refused_no_proxy"},
		{"accepted", decision{Action: node.Accepted, Message: message.PPFC}, node.Accepted, "accepted_ppfc"},
		{"dropped", decision{Action: node.Dropped, Message: message.CNP}, node.Dropped, "dropped_cnp"},
		{"forwarded", decision{Action: node.Forwarded, Message: message.CNP}, node.Forwarded, "forwarded"},
		{"learned", decision{Action: node.Learned}, node.Learned, "learned"},
		{"passed", decision{Action: node.Passed}, node.Passed, "passed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var counters node.Counters
			counters.Settle(&row.d)
			require.Equal(t, row.action, row.d.Action)
			if row.action == node.Refused {
				require.Equal(t, message.Other, row.d.Message)
			}
			var got []string
			for k, n := range counters.All() {
				require.EqualValues(t, 1, n)
				got = append(got, k.String())
			}
			slices.Sort(got)
			require.Equal(t, row.want, strings.Join(got, " "))
		})
	}
}

// Of counts one counter where a kind or a reason is given, otherwise all of an action.
func TestCountersOf(t *testing.T) {
	var c node.Counters
	c.Inc(node.Count{Action: node.Sent, Message: message.CNP})
	c.Inc(node.Count{Action: node.Sent, Message: message.FCN})
	c.Inc(node.Count{Action: node.Sent, Message: message.FCN})
	c.Inc(node.Count{Action: node.Refused, Reason: node.Limited})
	c.Inc(node.Count{Action: node.Refused, Reason: node.AmbiguousLabel}) // the last of the reasons
	c.Inc(node.Count{Effect: node.NotECNCapable})                        // the last of the effects
	for _, s := range []struct {
		count node.Count
		want  uint64
	}{
		{node.Count{Action: node.Sent}, 3},
		{node.Count{Action: node.Sent, Message: message.FCN}, 2},
		{node.Count{Action: node.Sent, Message: message.PPFC}, 0},
		{node.Count{Action: node.Refused}, 2},
		{node.Count{Action: node.Refused, Reason: node.AmbiguousLabel}, 1},
		{node.Count{Action: node.Refused, Reason: node.Denied}, 0},
		{node.Count{Action: node.Refused, Message: message.Kind(node.Limited)}, 0},
		{node.Count{Action: node.Sent, Reason: node.Reason(message.FCN)}, 0},
		{node.Count{Effect: node.NotECNCapable}, 1},
		{node.Count{Action: node.Learned}, 0},
	} {
		require.Equal(t, s.want, c.Of(s.count), s.count)
	}

	want := map[node.Count]uint64{
		{Action: node.Sent, Message: message.CNP}:           2,
		{Action: node.Sent, Message: message.FCN}:           4,
		{Action: node.Refused, Reason: node.Limited}:        2,
		{Action: node.Refused, Reason: node.AmbiguousLabel}: 2,
		{Effect: node.NotECNCapable}:                        2,
		{Action: node.Learned}:                              1,
	}
	var sum node.Counters
	sum.Inc(node.Count{Action: node.Learned})
	sum.Add(&c)
	sum.Add(&c)
	require.Equal(t, want, maps.Collect(sum.All()))
	for range sum.All() {
		break // one who has seen enough is not asked again
	}
}

// What no counter is for counts nothing, as nothing of the kind can be.
func TestCountersOutOfRange(t *testing.T) {
	const actions, reasons, effects = node.Refused + 1, node.AmbiguousLabel + 1, node.NotECNCapable + 1
	var c node.Counters
	for _, k := range []node.Count{
		{Action: actions}, {Action: 255}, {Action: actions, Reason: node.Limited},
		{Action: actions, Message: message.CNP},
		{Action: node.Refused, Reason: reasons}, {Action: node.Refused, Reason: 255}, {Action: node.Sent, Message: 255},
		{Effect: effects}, {Effect: 255}, {Effect: node.Opened, Action: node.Sent},
		{Effect: node.Opened, Message: message.CNP}, {Effect: node.Opened, Reason: node.Limited},
	} {
		c.Inc(k)
		require.Zero(t, c.Of(k), k)
	}
	require.Empty(t, maps.Collect(c.All()))
}

func TestCountString(t *testing.T) {
	for _, row := range []struct {
		name string
		c    node.Count
	}{
		{"nothing", node.Count{}},
		{"sent_cnp", node.Count{Action: node.Sent, Message: message.CNP}},
		{"refused_limited", node.Count{Action: node.Refused, Reason: node.Limited}},
		{"refused", node.Count{Action: node.Refused}},
		{"accepted_ppfc", node.Count{Action: node.Accepted, Message: message.PPFC}},
		{"not_ecn_capable", node.Count{Effect: node.NotECNCapable}},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.name, row.c.String()) })
	}
}
