package ingress

import (
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// FCN about every label that there is: those that were given have one CNP each,
// about the others nothing is sent.
func TestForgedLabels(t *testing.T) {
	pe := newPE(t, nil)
	given := map[uint32]uint32{}
	for qp := uint32(2); qp < 1002; qp++ {
		k := rocev2.FlowKey{Src: sender6, Dst: remote6, DestQP: qp}
		require.NoError(t, pe.cfg.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: k}, qpmap.Pair{SrcQP: 0x10000 + qp}))
		label, reason := pe.give(packetOf(k), 0, start)
		require.Equal(t, node.NoReason, reason)
		given[label] = 0x10000 + qp
	}
	out, data := make([]byte, 0, 256), make([]byte, 4)
	valid := 0
	for i := range uint32(wiretest.Rounds(1 << 20)) {
		label := i * 0x9E375 & maxLabel // all of them, in another order
		if given[label] != 0 {
			valid++
		}
		be.PutUint32(data, label<<12)
		_, n, reason := pe.hear(out, p1, data, start)
		if reason == node.NoReason && n.SrcQP != given[label] || reason != node.NoReason &&
			(reason != node.ReasonUnknownLabel || given[label] != 0) {
			t.Fatalf("label %d of queue pair %d: %+v, %v", label, given[label], n, reason)
		}
	}
	require.NotZero(t, valid)
	require.EqualValues(t, valid, pe.counted(node.ActionSent))
}

// One FCN, replayed all the time for a second: as many CNPs as the limit of the
// flow says.
func TestReplays(t *testing.T) {
	pe := newPE(t, func(c *Config) { c.PerFlow = time.Millisecond })
	label, reason := pe.give(packetOf(flow6), 0, start)
	require.Equal(t, node.NoReason, reason)
	data := messageAbout(t, label)
	for i := range 100_000 {
		_, _, _ = pe.hear(nil, p1, data, start.Add(time.Duration(i)*10*time.Microsecond))
	}
	require.EqualValues(t, 1000, pe.counted(node.ActionSent))
	require.EqualValues(t, 99_000, pe.refused(node.ReasonLimited))
}

// A flood of new flows takes the room that there is, and nothing from those that
// are live: neither their labels nor memory beyond the maximum.
func TestFloodOfFlows(t *testing.T) {
	pe := newPE(t, func(c *Config) { c.MaxFlows, c.Idle = 1000, time.Second })
	live := make([]uint32, 100)
	p := packetOf(rocev2.FlowKey{Src: sender6, Dst: remote6})
	label := func(qp uint32, at time.Duration) uint32 {
		p.BTH.DestQP = qp
		l, _ := pe.give(p, 0, start.Add(at))
		return l
	}
	for i := range live {
		live[i] = label(uint32(i), 0)
	}
	flood := wiretest.Rounds(1_000_000) // in ten seconds; in a short run, in one
	for i := range flood {
		at := time.Duration(i) * 10 * time.Microsecond
		label(1000+uint32(i), at)
		if i%500 == 0 {
			q := i / 500 % len(live)
			if got := label(uint32(q), at); got != live[q] {
				t.Fatalf("after %v flow %d has label %d, not %d", at, q, got, live[q])
			}
		}
	}
	require.LessOrEqual(t, pe.Len(), 1000)
	require.Zero(t, testing.AllocsPerRun(1000, func() { label(1<<20, 10*time.Second) }))
	require.Greater(t, pe.refused(node.ReasonTableFull), uint64(flood)*98/100)
}
