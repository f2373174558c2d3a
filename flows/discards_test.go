package flows

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// Discarded packets count by queue and reason, at most 8 of them, and not as samples.
func TestDiscards(t *testing.T) {
	s := NewSamples(0)
	var d Decoder
	var p Packet
	for _, f := range wiretest.Capture(t, "rxe-perf4.pcap") {
		if d.Decode(&p, f.Data, rocev2.DecodeOptions{}); p.kind == requestKind {
			break
		}
	}
	require.Equal(t, requestKind, p.kind)
	agent := netip.MustParseAddr("192.0.2.200")
	at := func(port, queue uint32) Sample {
		q := EgressQueue{Agent: agent, Port: port, Queue: queue, HasQueue: true}
		return Sample{Queue: QueueSample{EgressQueue: q}}
	}
	seconds := func(n int64) time.Time { return time.Unix(n, 0).UTC() }
	require.True(t, s.ObserveDiscard(&p, at(9, 3), "acl", seconds(100)))
	require.False(t, s.ObserveDiscard(new(Packet), at(9, 3), "acl", seconds(100)))
	require.EqualValues(t, 1, s.Stats().Others)
	for _, n := range []int64{103, 101, 102} {
		s.ObserveDiscard(&p, at(9, 3), "no_buffer_space", seconds(n))
	}
	for queue := range uint32(10) {
		s.ObserveDiscard(&p, at(5, queue), "red", seconds(200))
	}
	all := s.Snapshot()
	require.Len(t, all, 1)
	require.Zero(t, all[0].Requests.Packets)
	require.Empty(t, all[0].Points)
	got := all[0].Discards
	require.Len(t, got, 9)
	require.Equal(t, []Discards{
		{Reason: OtherReason, Packets: 4, First: seconds(200), Last: seconds(200)},
		{EgressQueue: at(9, 3).Queue.EgressQueue, Reason: "no_buffer_space", Packets: 3, First: seconds(101),
			Last: seconds(103)},
		{EgressQueue: at(9, 3).Queue.EgressQueue, Reason: "acl", Packets: 1, First: seconds(100), Last: seconds(100)},
	}, got[:3])
}

// The deepest queue counts, and one with a depth before one with a delay only.
func TestDeepestSample(t *testing.T) {
	depth := func(octets uint32, delay time.Duration) QueueSample {
		return QueueSample{Depth: octets, Delay: delay, HasDepth: true, HasDelay: delay > 0}
	}
	delay := func(d time.Duration) QueueSample { return QueueSample{Delay: d, HasDelay: true} }
	for i, row := range []struct {
		all  []QueueSample
		want int
	}{
		{[]QueueSample{{EgressQueue: EgressQueue{Port: 1}}, delay(0)}, 1},
		{[]QueueSample{delay(5), delay(7), delay(6)}, 1},
		{[]QueueSample{depth(100, 1), delay(7), depth(99, 8)}, 0},
		{[]QueueSample{depth(100, 1), depth(100, 3), depth(100, 2)}, 1},
		{[]QueueSample{depth(0, 0), {}}, 0},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			var q QueueSample
			for j := range row.all {
				q.update(&row.all[j])
			}
			require.Equal(t, row.all[row.want], q)
		})
	}
}

// Discarded packets count for their flow in a table, also if no other packet of it was captured. Reports about
// answers count for the flow that they are about.
func TestTableDiscards(t *testing.T) {
	queue := EgressQueue{Agent: netip.MustParseAddr("192.0.2.250"), Port: 9}
	s := newPaired(t, 100)
	discard := func(p Packet, reason string) bool {
		return s.ObserveDiscard(&p, queue, reason, s.now)
	}
	request := Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), PSN: 101}}
	forth, back := s.keyAB(), s.keyBA()
	unknown := back.WithQP(99)
	s.sendOnly(100)
	require.True(t, discard(request, "no_buffer_space"))
	require.True(t, discard(request, "no_buffer_space"))
	require.True(t, discard(request, "acl"))
	require.True(t, discard(Packet{kind: answerKind, pkt: observation{Opcode: bth.RCAcknowledge, Flow: s.keyBA()}},
		"ttl_exceeded"))
	require.False(t, discard(Packet{kind: otherTraffic}, "acl"))
	require.True(t, discard(Packet{kind: answerKind, pkt: observation{Opcode: bth.RCAcknowledge,
		Flow: unknown}}, "acl"))
	f := s.onlyFlow()
	require.Equal(t, []Discards{{queue, "no_buffer_space", 2, s.now, s.now}, {queue, "acl", 1, s.now, s.now},
		{queue, "ttl_exceeded", 1, s.now, s.now}}, f.Discards)
	require.EqualValues(t, 1, f.Packets)
	require.EqualValues(t, 4, f.Trouble())
	require.Equal(t, map[string]uint64{"no_buffer_space": 2, "acl": 2, "ttl_exceeded": 1},
		s.Snapshot().Capture.Discarded)

	find := func(all *Snapshot, k key) *Flow {
		i := slices.IndexFunc(all.Flows, func(f Flow) bool { return keyOf(f.FlowKey) == k })
		require.GreaterOrEqual(t, i, 0)
		return &all.Flows[i]
	}
	require.Len(t, find(s.Changes(), forth).Discards, 3)
	require.Empty(t, s.Changes().Flows)
	require.True(t, discard(request, "acl"))
	require.Equal(t, []Discards{{queue, "acl", 1, s.now, s.now}}, find(s.Changes(), forth).Discards)

	request.pkt.Flow = forth.WithQP(77)
	require.True(t, discard(request, "acl"))
	f = *find(s.Snapshot(), request.pkt.Flow)
	require.Equal(t, []Discards{{queue, "acl", 1, s.now, s.now}}, f.Discards)
	require.Zero(t, f.Packets)
}
