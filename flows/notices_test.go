package flows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/rocev2"
)

// The deepest queue is that of the packet's own trace, among nodes with a known depth.
func TestQueues(t *testing.T) {
	type node struct {
		id    uint64
		depth uint32
	}
	trace := func(typ ioam.TraceType, nodes ...node) *ioam.Trace {
		trace := ioam.Trace{OptType: ioam.OptTypeIncremental, Type: typ}
		be := func(v uint64, octets int) {
			for i := octets - 1; i >= 0; i-- {
				trace.Data = append(trace.Data, byte(v>>(8*i)))
			}
		}
		for _, n := range nodes { // in the order of the fields: node, depth, wide node
			if typ.Has(ioam.BitNode) {
				be(64<<24|n.id, 4)
			}
			if typ.Has(ioam.BitQueueDepth) {
				be(uint64(n.depth), 4)
			}
			if typ.Has(ioam.BitWideNode) {
				be(64<<56|n.id, 8)
			}
		}
		return &trace
	}
	const short, wide = ioam.BitNode | ioam.BitQueueDepth, ioam.BitWideNode | ioam.BitQueueDepth
	var p Packet
	for _, c := range []struct {
		trace *ioam.Trace
		hops  uint8
		want  QueueDepth
	}{
		{trace(short, node{1, 10}, node{2, 300}, node{3, 20}), 3, QueueDepth{2, 300, true}},
		{trace(short, node{4, 5}), 1, QueueDepth{4, 5, true}}, // less than in the previous packet
		{trace(short, node{4, 0}), 1, QueueDepth{4, 0, true}},
		{trace(wide, node{1 << 40, 7}, node{2 << 40, 7}), 2, QueueDepth{1 << 40, 7, true}},
		{trace(short, node{1, 0xFFFFFFFF}, node{2, 6}), 1, QueueDepth{2, 6, true}},
		{trace(ioam.BitNode, node{1, 0}), 0, QueueDepth{}},
		{trace(short, node{1, 1}, node{2, 2}, node{3, 3}, node{4, 4}, node{5, 5}, node{6, 6}, node{7, 7}),
			maxNodes, QueueDepth{7, 7, true}},
	} {
		p.nHops = 0 // as Decode does; the queue of the previous packet remains
		p.readQueues(c.trace)
		require.Equal(t, c.hops, p.nHops)
		if c.hops > 0 {
			require.Equal(t, c.want, p.queue)
		}
	}
}

// A message without a flow counts for its sender. A message with a flow counts for that flow, even
// if its sender has flows of its own.
func TestNoticeWithoutFlow(t *testing.T) {
	for _, kind := range []kind{proxyKind, ppfcKind, fastKind} {
		table := New(Config{})
		s := newScript(t)
		data := Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB()}}
		table.Observe(&data, 1, s.now)
		count := func(a *Answers) uint64 { return a.Proxy + a.PPFC + a.FastCNPs }

		none := key{QP: withoutQP | overIPv4}
		table.Observe(&Packet{kind: kind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()}, about: none}, 2, s.now)
		all := table.Snapshot()
		require.Zero(t, count(&all.Flows[0].Answers), kind)
		require.Len(t, all.Unpaired, 1)
		require.EqualValues(t, 1, count(&all.Unpaired[0].Answers))
		require.Equal(t, rocev2.FlowKey{Src: s.b, Dst: s.a, DestQP: s.qpA}, all.Unpaired[0].FlowKey)

		table.Observe(&Packet{kind: kind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()}, about: s.keyAB()}, 3,
			s.now)
		all = table.Snapshot()
		require.EqualValues(t, 1, count(&all.Flows[0].Answers), kind)
		require.EqualValues(t, 1, count(&all.Unpaired[0].Answers))
	}
}

// Spacing is the shortest time between two CNPs. Clock steps backwards are ignored.
func TestSpacing(t *testing.T) {
	for _, c := range []struct {
		name string
		at   []time.Duration
		want time.Duration
	}{
		{"one", []time.Duration{5}, -1},
		{"two", []time.Duration{5, 55}, 50},
		{"the first one at 0", []time.Duration{0, 50}, 50},
		{"narrower, then wider", []time.Duration{0, 50, 80, 180}, 30},
		{"at the same time", []time.Duration{7, 7}, 0},
		{"back", []time.Duration{100, 40}, -1},
		{"back, and on", []time.Duration{100, 40, 60}, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := New(Config{})
			var f flow
			for _, at := range c.at {
				table.recordCNP(&f, false, 1, int64(at))
			}
			require.Equal(t, c.want >= 0, f.cnps.spaced)
			if c.want >= 0 {
				require.Equal(t, c.want, f.cnps.spacing)
			}
		})
	}
}
