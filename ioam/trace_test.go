package ioam

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// everyField has the fields of all bits, each with a different value.
const everyField = "40 0000a1 0191 0192 6b016366 000ac170 00000101 0badcafe 00000007 0000beef" + // bits 0 to 7
	"41 00a1a1a1a1a1a1 00061ff9 000623e2 cafec0caf1adc0de 00000bf0" + // bits 8 to 11
	"00000c00 00000c01 00000c02 00000c03 00000c04 00000c05 00000c06 00000c07 00000c08 00000c09" + // bits 12 to 21
	"02 00029a 48656c6c 6f212121" // bit 22

var everyFieldNode = Node{
	typ:      0xFFFFFE,
	hopLimit: 64, nodeID: 0xA1, ingress: 401, egress: 402, seconds: 0x6B016366, fraction: 704880,
	transitDelay: 257, namespaceData: 0x0BADCAFE, queueDepth: 7, checksumComplement: 0xBEEF,
	wideHopLimit: 65, wideNodeID: 0xA1A1A1A1A1A1, wideIngress: 401401, wideEgress: 402402,
	wideNamespaceData: 0xCAFEC0CAF1ADC0DE, bufferOccupancy: 0xBF0,
	undefined: [10]uint32{0xC00, 0xC01, 0xC02, 0xC03, 0xC04, 0xC05, 0xC06, 0xC07, 0xC08, 0xC09},
	snapshot:  Snapshot{SchemaID: 666, Data: []byte("Hello!!!")},
}

func TestTrace(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   OptType
		octets string
		want   Trace // without Data
		free   int   // octets before the nodes
		nodes  []Node
	}{
		{"pre-allocated with a free word",
			OptTypePreallocated, "007b 1001 c00000 00  a5a5a5a5  3d0000d4 01910192  3e0000c3 012d012e",
			Trace{Namespace: 123, RemainingLen: 1, Type: 0xC00000}, 4,
			[]Node{
				{typ: 0xC00000, hopLimit: 61, nodeID: 0xD4, ingress: 401, egress: 402},
				{typ: 0xC00000, hopLimit: 62, nodeID: 0xC3, ingress: 301, egress: 302},
			}},
		{"incremental: RemainingLen is a budget, nodes stand at the front",
			OptTypeIncremental, "007b 1001 c00000 00  3d0000d4 01910192  3e0000c3 012d012e",
			Trace{OptType: OptTypeIncremental, Namespace: 123, RemainingLen: 1, Type: 0xC00000}, 0,
			[]Node{
				{typ: 0xC00000, hopLimit: 61, nodeID: 0xD4, ingress: 401, egress: 402},
				{typ: 0xC00000, hopLimit: 62, nodeID: 0xC3, ingress: 301, egress: 302},
			}},
		{"incremental with a budget beyond the option",
			OptTypeIncremental, "0000 087f 800000 00",
			Trace{OptType: OptTypeIncremental, RemainingLen: 127, Type: 0x800000}, 0, nil},
		{"flags and reserved bits",
			OptTypePreallocated, "ffff 0f80 800001 ff  40000001",
			Trace{Namespace: 0xFFFF, Overflow: true, Loopback: true, Active: true, ReservedFlag: true, Type: 0x800001,
				Reserved: 0xFF}, 0,
			[]Node{{typ: 0x800001, hopLimit: 64, nodeID: 1}}},
		{"overflow", OptTypePreallocated, "0001 0c00 800000 00",
			Trace{Namespace: 1, Overflow: true, Type: 0x800000}, 0, nil},
		{"loopback", OptTypePreallocated, "0001 0a00 800000 00",
			Trace{Namespace: 1, Loopback: true, Type: 0x800000}, 0, nil},
		{"active", OptTypePreallocated, "0001 0900 800000 00",
			Trace{Namespace: 1, Active: true, Type: 0x800000}, 0, nil},
		{"R", OptTypePreallocated, "0001 0880 800000 00",
			Trace{Namespace: 1, ReservedFlag: true, Type: 0x800000}, 0, nil},
		{"every bit", OptTypePreallocated, "007b c802 fffffe 00 ffffffff 00000000" + everyField,
			Trace{Namespace: 123, RemainingLen: 2, Type: 0xFFFFFE}, 8, []Node{everyFieldNode}},
		{"snapshots only: NodeLen 0",
			OptTypePreallocated,
			"007b 0001 000002 00  00000000  00ffffff  01000309 61626364  02000001 6162636465666768",
			Trace{Namespace: 123, RemainingLen: 1, Type: 2}, 4,
			[]Node{
				{typ: 2, snapshot: Snapshot{SchemaID: noSchema, Data: []byte{}}},
				{typ: 2, snapshot: Snapshot{SchemaID: 777, Data: []byte("abcd")}},
				{typ: 2, snapshot: Snapshot{SchemaID: 1, Data: []byte("abcdefgh")}},
			}},
		{"snapshots after fields, incremental",
			OptTypeIncremental, "007b 0800 800002 00  3d0000d4 01000001 61626364  3e0000c3 00ffffff",
			Trace{OptType: OptTypeIncremental, Namespace: 123, Type: 0x800002}, 0,
			[]Node{
				{typ: 0x800002, hopLimit: 61, nodeID: 0xD4, snapshot: Snapshot{SchemaID: 1, Data: []byte("abcd")}},
				{typ: 0x800002, hopLimit: 62, nodeID: 0xC3, snapshot: Snapshot{SchemaID: noSchema, Data: []byte{}}},
			}},
		{"no field and no node, but free space", OptTypePreallocated, "007b 0001 000001 00  00000000",
			Trace{Namespace: 123, RemainingLen: 1, Type: 1}, 4, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wiretest.Hex(t, c.octets)
			var trace Trace
			require.NoError(t, trace.Decode(Option{Type: c.kind, Data: b}))
			want := c.want
			want.Data = b[8:]
			require.Equal(t, want, trace)
			require.Equal(t, b[8+c.free:], trace.NodeData())
			require.Equal(t, c.nodes, slices.Collect(trace.Nodes()))
			var read []Node
			for c := trace.Cursor(); ; {
				var n Node
				if !c.Next(&n) {
					break
				}
				read = append(read, n)
			}
			require.Equal(t, c.nodes, read, "with a cursor")
			wiretest.Encodes(t, b, trace.AppendBinary)
		})
	}
}

// A trace that was not decoded has a finite number of nodes for every type: each node takes 4 octets at least.
func TestNodesEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		types []TraceType
		want  int // nodes of 8 octets at most
	}{
		{"no field", []TraceType{0, BitReserved}, 0},
		{"bits above the field", []TraceType{1 << 24, 1 << 27, 1 << 31, 0xFF000000, 0xFF000001}, 0},
		{"bits above the field, and one of it", []TraceType{1<<27 | BitNode, 1<<31 | BitSnapshot}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, typ := range c.types {
				for _, kind := range []OptType{OptTypePreallocated, OptTypeIncremental, OptTypeEdgeToEdge} {
					trace := Trace{OptType: kind, Type: typ, Data: make([]byte, 8)}
					read, n := 0, Node{}
					for c := trace.Cursor(); read < 9 && c.Next(&n); read++ {
					}
					require.Equal(t, c.want, read, "%v", typ)
					require.Len(t, slices.Collect(trace.Nodes()), c.want)
					require.NotEmpty(t, trace.String())
				}
			}
		})
	}
}

func TestTraceErrors(t *testing.T) {
	nodes := strings.Repeat("3d0000d4 01910192", 3)
	for _, c := range []struct {
		name   string
		kind   OptType
		octets string
		err    error
		root   error
	}{
		{"an option that is no trace", OptTypeProofOfTransit, "007b 1000 c00000 00", errNotTrace, wireerr.Other},
		{"an option type beyond the known ones", 0xFF, "007b 1000 c00000 00", errNotTrace, wireerr.Other},
		{"no header", 0, "", errTruncatedTrace, wireerr.Truncated},
		{"7 octets of header", 0, "007b 1000 c00000", errTruncatedTrace, wireerr.Truncated},
		{"NodeLen too small", 0, "007b 0800 c00000 00" + nodes, errNodeLen, wireerr.Malformed},
		{"NodeLen too large", 0, "007b 1800 c00000 00" + nodes, errNodeLen, wireerr.Malformed},
		{"NodeLen 0", 0, "007b 0000 c00000 00" + nodes, errNodeLen, wireerr.Malformed},
		{"NodeLen that counts a wide field once", 0, "007b 0800 008000 00" + nodes, errNodeLen, wireerr.Malformed},
		{"NodeLen that counts bit 22", 0, "007b 0800 000002 00 00ffffff", errNodeLen, wireerr.Malformed},
		{"NodeLen that counts bit 23", 0, "007b 0800 000001 00", errNodeLen, wireerr.Malformed},
		{"data without a field", 0, "007b 0000 000000 00 00000000", errNoNode, wireerr.Malformed},
		{"data with only bit 23", 1, "007b 0000 000001 00 00000000", errNoNode, wireerr.Malformed},
		{"RemainingLen beyond the space", 0, "007b 1007 c00000 00" + nodes, errRemainingLen, wireerr.Malformed},
		{"RemainingLen 127 and no space", 0, "007b 107f c00000 00", errRemainingLen, wireerr.Malformed},
		{"half a node", 0, "007b 1000 c00000 00 3d0000d4", errTruncatedNode, wireerr.Truncated},
		{"a node and a half", 1, "007b 1000 c00000 00 3d0000d4 01910192 3e0000c3", errTruncatedNode, wireerr.Truncated},
		{"half a word more", 0, "007b 1000 c00000 00" + nodes + "0000", errTruncatedNode, wireerr.Truncated},
		{"half a node after free space", 0, "007b 1001 c00000 00 00000000 3d0000d4", errTruncatedNode,
			wireerr.Truncated},
		{"a node without its snapshot", 0, "007b 0800 800002 00 3d0000d4", errTruncatedNode, wireerr.Truncated},
		{"snapshot longer than the rest", 0, "007b 0800 800002 00 3d0000d4 02000001 61626364", errTruncatedSnapshot,
			wireerr.Truncated},
		{"snapshot of length 255", 1, "007b 0000 000002 00 00ffffff ff000001", errTruncatedSnapshot, wireerr.Truncated},
		{"an octet after the snapshots", 1, "007b 0000 000002 00 00ffffff 00", errTruncatedNode, wireerr.Truncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			trace := Trace{Namespace: 7, Data: []byte{1, 2, 3}}
			err := trace.Decode(Option{Type: c.kind, Data: wiretest.Hex(t, c.octets)})
			require.Equal(t, c.err, err)
			require.ErrorIs(t, err, c.root)
			require.Equal(t, Trace{Namespace: 7, Data: []byte{1, 2, 3}}, trace, "%s: unchanged", c.name)
		})
	}
}

func TestTraceAppendRejects(t *testing.T) {
	for _, c := range []struct {
		name  string
		trace Trace
		err   error
	}{
		{"another option type", Trace{OptType: OptTypeEdgeToEdge}, errNotTrace},
		{"a type of 25 bits", Trace{Type: 0x1000000}, errTraceTypeRange},
		{"RemainingLen of 8 bits", Trace{RemainingLen: 128, Data: make([]byte, 512)}, errRemainingLenRange},
		{"RemainingLen beyond the space", Trace{RemainingLen: 2, Data: make([]byte, 4)}, errRemainingLen},
		{"half a node", Trace{Type: 0xC00000, Data: make([]byte, 4)}, errTruncatedNode},
		{"a truncated snapshot", Trace{Type: BitSnapshot, Data: []byte{1, 0, 0, 0}}, errTruncatedSnapshot},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := c.trace.AppendBinary([]byte{0xA5})
			require.Equal(t, c.err, err)
			require.Equal(t, []byte{0xA5}, b)
		})
	}
}

// An IPv6 option of 254 octets holds 61 words.
func TestTraceInAnOptionOf254Octets(t *testing.T) {
	for _, kind := range []OptType{OptTypePreallocated, OptTypeIncremental} {
		b := append(wiretest.Hex(t, "007b 0800 800000 00"), bytes.Repeat([]byte{64, 0, 0, 0xB2}, 61)...)
		full := wiretest.Must(Option{Type: kind, Data: b}.AppendBinary(nil))(t)
		require.Len(t, full, 254)

		var o Option
		var trace Trace
		require.NoError(t, o.Decode(full))
		require.NoError(t, trace.Decode(o))
		nodes := 0
		for n := range trace.Nodes() {
			require.EqualValues(t, 0xB2, n.nodeID)
			nodes++
		}
		require.Equal(t, 61, nodes)

		require.NoError(t, o.Decode(append(full, 0)))
		require.Equal(t, errTruncatedNode, trace.Decode(o), "255th octet")
	}
}

// Reading a trace that was not decoded does not panic.
func TestReadingATraceMadeByHand(t *testing.T) {
	for _, c := range []struct {
		trace Trace
		nodes []Node
	}{
		{Trace{Type: 0xC00000, Data: []byte{61, 0, 0, 0xD4, 1}}, []Node{{typ: 0xC00000, hopLimit: 61, nodeID: 0xD4}}},
		{Trace{Type: 0, Data: make([]byte, 8)}, nil},
		{Trace{Type: BitReserved, Data: make([]byte, 8)}, nil},
		{Trace{Type: 0xC00000, RemainingLen: 200, Data: make([]byte, 8)}, nil},
		{Trace{Type: BitSnapshot, Data: []byte{9, 0, 0, 1, 5, 6}},
			[]Node{{typ: BitSnapshot, snapshot: Snapshot{SchemaID: 1, Data: []byte{5, 6}}}}},
	} {
		require.Equal(t, c.nodes, slices.Collect(c.trace.Nodes()))
	}
}

func TestNodesStopsAfterBreak(t *testing.T) {
	trace := Trace{Type: BitNode, Data: make([]byte, 12)}
	for range trace.Nodes() {
		break
	}
}

func TestTraceString(t *testing.T) {
	require.Equal(t, "incremental trace: namespace 123, type 0x800000 (node), remaining 4, overflow, active; "+
		"node 0xd4 at hop limit 61; node 0xc3 at hop limit 62",
		Trace{OptType: OptTypeIncremental, Namespace: 123, Type: BitNode, RemainingLen: 4, Overflow: true, Active: true,
			Data: []byte{61, 0, 0, 0xD4, 62, 0, 0, 0xC3}}.String())
}

func TestTraceTypeBits(t *testing.T) {
	for _, c := range []struct {
		bit   int
		typ   TraceType
		words int
		text  string
	}{
		{0, BitNode, 1, "0x800000 (node)"},
		{1, BitInterfaces, 1, "0x400000 (interfaces)"},
		{2, BitSeconds, 1, "0x200000 (seconds)"},
		{3, BitFraction, 1, "0x100000 (fraction)"},
		{4, BitTransitDelay, 1, "0x080000 (transit delay)"},
		{5, BitNamespaceData, 1, "0x040000 (namespace data)"},
		{6, BitQueueDepth, 1, "0x020000 (queue depth)"},
		{7, BitChecksum, 1, "0x010000 (checksum complement)"},
		{8, BitWideNode, 2, "0x008000 (wide node)"},
		{9, BitWideInterfaces, 2, "0x004000 (wide interfaces)"},
		{10, BitWideNamespaceData, 2, "0x002000 (wide namespace data)"},
		{11, BitBufferOccupancy, 1, "0x001000 (buffer occupancy)"},
		{12, BitUndefined, 1, "0x000800 (bit 12)"},
		{21, BitUndefined >> 9, 1, "0x000004 (bit 21)"},
		{22, BitSnapshot, 0, "0x000002 (snapshot)"},
		{23, BitReserved, 0, "0x000001 (reserved)"},
	} {
		require.Equal(t, TraceType(1<<23)>>c.bit, c.typ, c.text)
		require.Equal(t, c.words, c.typ.NodeLen(), c.text)
		require.Equal(t, c.text, c.typ.String())
	}
	for bit := 12; bit <= 21; bit++ {
		require.True(t, UndefinedBits.Has(BitNode>>bit), bit)
	}
	for _, c := range []struct {
		typ   TraceType
		words int
		text  string
	}{
		{0, 0, "0x000000"},
		{0x1800000, 1, "0x1800000 (node)"}, // 25 bits: printed, not encoded
		{0xD40000, 4, "0xd40000 (node, interfaces, fraction, namespace data)"},
		{0xF20000, 5, "0xf20000 (node, interfaces, seconds, fraction, queue depth)"},
		{0x308002, 4, "0x308002 (seconds, fraction, wide node, snapshot)"},
		{0xFFF002, 15, "0xfff002 (node, interfaces, seconds, fraction, transit delay, namespace data, queue depth, " +
			"checksum complement, wide node, wide interfaces, wide namespace data, buffer occupancy, snapshot)"},
	} {
		require.Equal(t, c.words, c.typ.NodeLen(), c.text)
		require.Equal(t, c.text, c.typ.String())
	}
	require.Equal(t, 25, TraceType(0xFFFFFF).NodeLen())
	require.True(t, TraceType(0xF20000).Has(BitNode|BitQueueDepth))
	require.False(t, TraceType(0xF20000).Has(BitNode|BitTransitDelay))
}
