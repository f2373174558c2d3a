package ioam_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
)

// values returns the available results of all methods that read a value, by name.
func values(t testing.TB, n *ioam.Node) map[string]any {
	all := map[string]any{}
	putAvailable(t, all, "HopLimit", n.HopLimit)
	putAvailable(t, all, "NodeID", n.NodeID)
	putAvailable(t, all, "Ingress", n.Ingress)
	putAvailable(t, all, "Egress", n.Egress)
	putAvailable(t, all, "Seconds", n.Seconds)
	putAvailable(t, all, "Fraction", n.Fraction)
	putAvailable(t, all, "TransitDelay", n.TransitDelay)
	putAvailable(t, all, "NamespaceData", n.NamespaceData)
	putAvailable(t, all, "QueueDepth", n.QueueDepth)
	putAvailable(t, all, "ChecksumComplement", n.ChecksumComplement)
	putAvailable(t, all, "WideHopLimit", n.WideHopLimit)
	putAvailable(t, all, "WideNodeID", n.WideNodeID)
	putAvailable(t, all, "WideIngress", n.WideIngress)
	putAvailable(t, all, "WideEgress", n.WideEgress)
	putAvailable(t, all, "WideNamespaceData", n.WideNamespaceData)
	putAvailable(t, all, "BufferOccupancy", n.BufferOccupancy)
	putAvailable(t, all, "ID", n.ID)
	putAvailable(t, all, "bit 12", func() (uint32, bool) { return n.Undefined(12) })
	putAvailable(t, all, "bit 21", func() (uint32, bool) { return n.Undefined(21) })
	putAvailable(t, all, "bit 11", func() (uint32, bool) { return n.Undefined(11) })
	putAvailable(t, all, "bit 22", func() (uint32, bool) { return n.Undefined(22) })
	s, ok := n.Snapshot()
	require.True(t, ok || s.SchemaID == 0 && s.Data == nil)
	if ok {
		all["Snapshot"] = hex.EncodeToString(s.Data)
	}
	return all
}

// putAvailable adds a value if it is available. Otherwise it must be 0, not all ones.
func putAvailable[T uint8 | uint16 | uint32 | uint64](
	t testing.TB, all map[string]any, name string, read func() (T, bool),
) {
	if value, ok := read(); ok {
		all[name] = value
	} else {
		require.Zero(t, value, name)
	}
}

// traceOf decodes the option data of a pre-allocated trace.
func traceOf(t testing.TB, octets string) (trace ioam.Trace) {
	require.NoError(t, trace.Decode(ioam.Option{Data: wiretest.Hex(t, octets)}))
	return trace
}

func TestNodeValues(t *testing.T) {
	ones := strings.Repeat("ffffffff", 25) + "00ffffff"
	for _, c := range []struct {
		name  string
		trace string
		want  map[string]any
	}{
		{"every field", "007b c800 fffffe 00" +
			"3d0000d4 00010002 00000003 00000004 00000005 00000006 00000007 00000008" +
			"3c0000000000000a 0000000b0000000c 000000000000000d 0000000e" +
			strings.Repeat("0000000f", 10) + "01000010 00000011",
			map[string]any{
				"HopLimit": uint8(61), "NodeID": uint32(212), "Ingress": uint16(1), "Egress": uint16(2),
				"Seconds": uint32(3), "Fraction": uint32(4), "TransitDelay": uint32(5), "NamespaceData": uint32(6),
				"QueueDepth": uint32(7), "ChecksumComplement": uint32(8), "WideHopLimit": uint8(60),
				"WideNodeID": uint64(10), "WideIngress": uint32(11), "WideEgress": uint32(12),
				"WideNamespaceData": uint64(13), "BufferOccupancy": uint32(14), "ID": uint64(212),
				"bit 12": uint32(15), "bit 21": uint32(15), "Snapshot": "00000011",
			}},
		{"every field unavailable", "007b c800 fffffe 00" + ones, map[string]any{}},
		{"other fields", "007b 1000 820000 00 00000000 00000000",
			map[string]any{"HopLimit": uint8(0), "NodeID": uint32(0), "ID": uint64(0), "QueueDepth": uint32(0)}},
		{"node unavailable", "007b 1000 820000 00 ffffffff 00000007", map[string]any{"QueueDepth": uint32(7)}},
		{"identifier unavailable", "007b 0800 800000 00 3dffffff", map[string]any{"HopLimit": uint8(61)}},
		{"hop limit 255", "007b 0800 800000 00 ff0000d4",
			map[string]any{"HopLimit": uint8(255), "NodeID": uint32(212), "ID": uint64(212)}},
		{"ingress unavailable", "007b 0800 400000 00 ffff0002", map[string]any{"Egress": uint16(2)}},
		{"egress unavailable", "007b 0800 400000 00 0002ffff", map[string]any{"Ingress": uint16(2)}},
		{"wide interface unavailable", "007b 1000 004000 00 ffffffff 00000002",
			map[string]any{"WideEgress": uint32(2)}},
		{"identifier only wide", "007b 1800 808000 00 ffffffff 3d000000 00000009",
			map[string]any{"WideHopLimit": uint8(61), "WideNodeID": uint64(9), "ID": uint64(9)}},
		{"schema without data", "007b 0000 000002 00 00000010", map[string]any{"Snapshot": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			trace := traceOf(t, c.trace)
			nodes := 0
			for n := range trace.Nodes() {
				nodes++
				require.Equal(t, trace.Type, n.Type())
				require.Equal(t, c.want, values(t, &n))
				wiretest.Encodes(t, trace.NodeData(), n.AppendBinary)
			}
			require.Equal(t, 1, nodes)
		})
	}
	require.Empty(t, values(t, new(ioam.Node)))
}

// Cursor.Next leaves no values of an older trace in the fields of the trace.
func TestNodeValuesAreNotThoseBefore(t *testing.T) {
	var n ioam.Node
	for _, octets := range []string{"007b 1000 820000 00 3d0000d4 00000007", "007b 0800 800000 00 3e0000c3"} {
		trace := traceOf(t, octets)
		c := trace.Cursor()
		require.True(t, c.Next(&n))
	}
	require.Equal(t, map[string]any{"HopLimit": uint8(62), "NodeID": uint32(195), "ID": uint64(195)}, values(t, &n))
}

func TestNodeSetters(t *testing.T) {
	set := func(f func(n *ioam.Node)) (n ioam.Node) {
		f(&n)
		return n
	}
	for _, c := range []struct {
		name string
		node ioam.Node
		typ  ioam.TraceType
		want string
	}{
		{"SetNode", set(func(n *ioam.Node) { n.SetNode(61, 212) }), 0x800000, "3d0000d4"},
		{"SetIngress", set(func(n *ioam.Node) { n.SetIngress(1) }), 0x400000, "0001ffff"},
		{"SetEgress", set(func(n *ioam.Node) { n.SetEgress(2) }), 0x400000, "ffff0002"},
		{"both", set(func(n *ioam.Node) { n.SetEgress(2); n.SetIngress(1) }), 0x400000, "00010002"},
		{"SetSeconds", set(func(n *ioam.Node) { n.SetSeconds(3) }), 0x200000, "00000003"},
		{"SetFraction", set(func(n *ioam.Node) { n.SetFraction(4) }), 0x100000, "00000004"},
		{"SetTransitDelay", set(func(n *ioam.Node) { n.SetTransitDelay(5) }), 0x080000, "00000005"},
		{"SetNamespaceData", set(func(n *ioam.Node) { n.SetNamespaceData(6) }), 0x040000, "00000006"},
		{"SetQueueDepth", set(func(n *ioam.Node) { n.SetQueueDepth(0) }), 0x020000, "00000000"},
		{"SetChecksumComplement", set(func(n *ioam.Node) { n.SetChecksumComplement(8) }), 0x010000, "00000008"},
		{"SetWideNode", set(func(n *ioam.Node) { n.SetWideNode(60, 10) }), 0x008000, "3c00000000 00000a"},
		{"SetWideIngress", set(func(n *ioam.Node) { n.SetWideIngress(11) }), 0x004000, "0000000b ffffffff"},
		{"SetWideEgress", set(func(n *ioam.Node) { n.SetWideEgress(12) }), 0x004000, "ffffffff 0000000c"},
		{"SetWideNamespaceData", set(func(n *ioam.Node) { n.SetWideNamespaceData(13) }), 0x002000, "0000000000 00000d"},
		{"SetBufferOccupancy", set(func(n *ioam.Node) { n.SetBufferOccupancy(14) }), 0x001000, "0000000e"},
		{"SetSnapshot", set(func(n *ioam.Node) { n.SetSnapshot(ioam.Snapshot{SchemaID: 16, Data: []byte("abcd")}) }),
			0x000002, "01000010 61626364"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.typ, c.node.Type())
			wiretest.Encodes(t, wiretest.Hex(t, c.want), c.node.AppendBinary)
		})
	}
}

// An own record has the fields that were set. A record without any field is an error.
func TestOwnRecord(t *testing.T) {
	trace := ioam.Trace{Namespace: 123, Type: ioam.BitNode | ioam.BitQueueDepth | ioam.BitBufferOccupancy}
	b := wiretest.Must(trace.AppendFresh(nil, trace.Type.NodeLen()))(t)
	option := ioam.Option{Type: ioam.OptTypePreallocated, Data: b}

	var own ioam.Node
	added, err := ioam.AddNode(option, &own)
	require.False(t, added)
	require.ErrorIs(t, err, rocecn.ErrRange)
	var named *rocecn.Error
	require.True(t, errors.As(err, &named))
	require.Equal(t, "Node", named.Field)

	own.SetNode(61, 229)
	own.SetQueueDepth(4242)
	added = wiretest.Must(ioam.AddNode(option, &own))(t)
	require.True(t, added)
	require.Equal(t, wiretest.Hex(t, "3d0000e5 00001092 ffffffff"), b[8:])
}
