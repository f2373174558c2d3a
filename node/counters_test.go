package node_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
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
		{"nothing", decision{Packet: message.KindData}, node.NoAction, ""},
		{"refused", decision{Reason: node.ReasonLimited, Message: message.KindCNP}, node.ActionRefused,
			"refused_limited"},
		{"forwarded, no label", decision{Action: node.ActionForwarded, Reason: node.ReasonTableFull},
			node.ActionForwarded,
			"forwarded refused_table_full"},
		{"sent", decision{Action: node.ActionSent, Message: message.KindFCN}, node.ActionSent, "sent_fcn"},
		{"sent and marked", decision{Action: node.ActionSent, Message: message.KindFastCNP, MarkECN: true},
			node.ActionSent,
			"marked sent_fastcnp"},
		{"marked", decision{Action: node.ActionMarked, MarkECN: true}, node.ActionMarked, "marked"},
		{"marked, and a reason", decision{Action: node.ActionMarked, Reason: node.ReasonNoProxy, MarkECN: true},
			node.ActionMarked,
			"marked refused_no_proxy"},
		{"accepted", decision{Action: node.ActionAccepted, Message: message.KindPPFC}, node.ActionAccepted,
			"accepted_ppfc"},
		{"dropped", decision{Action: node.ActionDropped, Message: message.KindCNP}, node.ActionDropped, "dropped_cnp"},
		{"forwarded", decision{Action: node.ActionForwarded, Message: message.KindCNP}, node.ActionForwarded,
			"forwarded"},
		{"learned", decision{Action: node.ActionLearned}, node.ActionLearned, "learned"},
		{"passed", decision{Action: node.ActionPassed}, node.ActionPassed, "passed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var counters node.Counters
			counters.Settle(&row.d)
			require.Equal(t, row.action, row.d.Action)
			if row.action == node.ActionRefused {
				require.Equal(t, message.KindOther, row.d.Message)
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
	c.Inc(node.Count{Action: node.ActionSent, Message: message.KindCNP})
	c.Inc(node.Count{Action: node.ActionSent, Message: message.KindFCN})
	c.Inc(node.Count{Action: node.ActionSent, Message: message.KindFCN})
	c.Inc(node.Count{Action: node.ActionRefused, Reason: node.ReasonLimited})
	c.Inc(node.Count{Action: node.ActionRefused, Reason: node.ReasonTrimmed}) // the last of the reasons
	c.Inc(node.Count{Effect: node.EffectNotECNCapable})                       // the last of the effects
	for _, s := range []struct {
		count node.Count
		want  uint64
	}{
		{node.Count{Action: node.ActionSent}, 3},
		{node.Count{Action: node.ActionSent, Message: message.KindFCN}, 2},
		{node.Count{Action: node.ActionSent, Message: message.KindPPFC}, 0},
		{node.Count{Action: node.ActionRefused}, 2},
		{node.Count{Action: node.ActionRefused, Reason: node.ReasonTrimmed}, 1},
		{node.Count{Action: node.ActionRefused, Reason: node.ReasonDenied}, 0},
		{node.Count{Action: node.ActionRefused, Message: message.Kind(node.ReasonLimited)}, 0},
		{node.Count{Action: node.ActionSent, Reason: node.Reason(message.KindFCN)}, 0},
		{node.Count{Effect: node.EffectNotECNCapable}, 1},
		{node.Count{Action: node.ActionLearned}, 0},
	} {
		require.Equal(t, s.want, c.Load(s.count), s.count)
	}

	want := map[node.Count]uint64{
		{Action: node.ActionSent, Message: message.KindCNP}:      1,
		{Action: node.ActionSent, Message: message.KindFCN}:      2,
		{Action: node.ActionRefused, Reason: node.ReasonLimited}: 1,
		{Action: node.ActionRefused, Reason: node.ReasonTrimmed}: 1,
		{Effect: node.EffectNotECNCapable}:                       1,
	}
	require.Equal(t, want, maps.Collect(c.All()))
	for range c.All() {
		break // a caller may stop early
	}
}

// A Count without a counter is ignored.
func TestCountersOutOfRange(t *testing.T) {
	const actions, reasons, effects = node.ActionRefused + 1, node.ReasonPSNMismatch + 1, node.EffectNotECNCapable +
		1
	var c node.Counters
	for _, k := range []node.Count{
		{Action: actions}, {Action: 255}, {Action: actions, Reason: node.ReasonLimited},
		{Action: actions, Message: message.KindCNP},
		{Action: node.ActionRefused, Reason: reasons}, {Action: node.ActionRefused, Reason: 255},
		{Action: node.ActionSent, Message: 255},
		{Effect: effects}, {Effect: 255}, {Effect: node.EffectOpened, Action: node.ActionSent},
		{Effect: node.EffectOpened, Message: message.KindCNP}, {Effect: node.EffectOpened, Reason: node.ReasonLimited},
	} {
		c.Inc(k)
		require.Zero(t, c.Load(k), k)
	}
	require.Empty(t, maps.Collect(c.All()))
}

func TestCountString(t *testing.T) {
	for _, row := range []struct {
		name string
		c    node.Count
	}{
		{"nothing", node.Count{}},
		{"sent_cnp", node.Count{Action: node.ActionSent, Message: message.KindCNP}},
		{"refused_limited", node.Count{Action: node.ActionRefused, Reason: node.ReasonLimited}},
		{"refused", node.Count{Action: node.ActionRefused}},
		{"accepted_ppfc", node.Count{Action: node.ActionAccepted, Message: message.KindPPFC}},
		{"not_ecn_capable", node.Count{Effect: node.EffectNotECNCapable}},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.name, row.c.String()) })
	}
}

// A Reason prints as its text in every verb that fmt uses for errors.
func TestReasonPrints(t *testing.T) {
	require.Equal(t, "limited limited", fmt.Sprint(node.ReasonLimited, " ", node.ReasonLimited))
	require.Equal(t, "limited", fmt.Sprintf("%v", node.ReasonLimited))
	require.Empty(t, fmt.Sprint(node.NoReason))
	_, isError := any(node.ReasonLimited).(error)
	require.False(t, isError)
}

// Every kind of message is counted: there are no more of them than columns.
func TestEveryKindIsCounted(t *testing.T) {
	for kind := message.KindError; kind.String() != fmt.Sprintf("Kind(%d)", uint8(kind)); kind++ {
		var c node.Counters
		k := node.Count{Action: node.ActionSent, Message: kind}
		c.Inc(k)
		require.EqualValues(t, 1, c.Load(k), kind)
	}
}
