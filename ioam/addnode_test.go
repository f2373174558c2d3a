package ioam

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestAppendFresh(t *testing.T) {
	for _, c := range []struct {
		name  string
		trace Trace
		words int
		want  string
	}{
		{"pre-allocated", Trace{Namespace: 123, Type: 0xC00000}, 4,
			"007b 1004 c00000 00" + "00000000000000000000000000000000"},
		{"incremental", Trace{OptType: OptTypeIncremental, Namespace: 123, Type: 0xC00000}, 4, "007b 1004 c00000 00"},
		{"the most", Trace{OptType: OptTypeIncremental, Namespace: 123, Type: 0xC00000}, 127, "007b 107f c00000 00"},
		{"no room", Trace{Namespace: 123, Type: 0xC00000}, 0, "007b 1000 c00000 00"},
		{"active, and the data of an old trace is ignored",
			Trace{Type: 0x800000, Active: true, RemainingLen: 99, Data: []byte{1}}, 1,
			"0000 0901 800000 00 00000000"},
		{"snapshots only", Trace{Type: BitSnapshot}, 2, "0000 0002 000002 00 00000000 00000000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wiretest.Encodes(t, wiretest.Hex(t, c.want),
				func(b []byte) ([]byte, error) { return c.trace.AppendFresh(b, c.words) })
		})
	}
	for _, c := range []struct {
		trace Trace
		words int
		err   error
	}{
		{Trace{Type: BitNode}, 128, errRemainingLenRange},
		{Trace{Type: BitNode}, -1, errRemainingLenRange},
		{Trace{Type: 0x1000000}, 1, errTraceTypeRange},
		{Trace{OptType: OptTypeDirectExport}, 1, errNotTrace},
	} {
		b, err := c.trace.AppendFresh([]byte{0xA5}, c.words)
		require.Equal(t, c.err, err)
		require.Equal(t, []byte{0xA5}, b)
	}
}

// The rules of RFC 9197 section 4.4.1, step by step, on a trace with space for two and
// a half nodes.
func TestAddNodeInPlace(t *testing.T) {
	b := wiretest.Hex(t, "007b 1005 c00000 00"+"a5a5a5a5 a5a5a5a5 a5a5a5a5 a5a5a5a5 a5a5a5a5")
	o := Option{Type: OptTypePreallocated, Data: b}
	for _, c := range []struct {
		node  Node
		added bool
		want  string
	}{
		{Node{typ: 0xC00000, hopLimit: 63, nodeID: 0xB2, ingress: 201, egress: 202}, true,
			"007b 1003 c00000 00" + "a5a5a5a5 a5a5a5a5 a5a5a5a5" + "3f0000b2 00c900ca"},
		{Node{typ: 0xC00000, hopLimit: 62, nodeID: 0xC3, ingress: 301, egress: 302}, true,
			"007b 1001 c00000 00" + "a5a5a5a5" + "3e0000c3 012d012e" + "3f0000b2 00c900ca"},
		{Node{typ: 0xC00000, hopLimit: 61, nodeID: 0xD4, ingress: 401, egress: 402}, false, // only sets O
			"007b 1401 c00000 00" + "a5a5a5a5" + "3e0000c3 012d012e" + "3f0000b2 00c900ca"},
		{Node{typ: 0xC00000}, false, // O is already set
			"007b 1401 c00000 00" + "a5a5a5a5" + "3e0000c3 012d012e" + "3f0000b2 00c900ca"},
	} {
		added := wiretest.Must(AddNode(o, &c.node))(t)
		require.Equal(t, c.added, added)
		require.Equal(t, wiretest.Hex(t, c.want), b)
	}
}

func TestAddNodeWithOverflowSetDoesNothing(t *testing.T) {
	for _, kind := range []OptType{OptTypePreallocated, OptTypeIncremental} {
		b := wiretest.Hex(t, "007b 0c01 800000 00 00000000")
		o, n := Option{Type: kind, Data: bytes.Clone(b)}, Node{typ: BitNode, nodeID: 1}
		if kind == OptTypePreallocated {
			added := wiretest.Must(AddNode(o, &n))(t)
			require.False(t, added)
			require.Equal(t, b, o.Data)
		} else {
			out, added, err := AppendNode([]byte{0xA5}, o, &n)
			require.NoError(t, err)
			require.False(t, added)
			require.Equal(t, append([]byte{0xA5}, b...), out)
		}
	}
}

func TestAppendNode(t *testing.T) {
	b := wiretest.Hex(t, "007b 1005 c00000 00")
	for _, c := range []struct {
		node  Node
		added bool
		want  string
	}{
		{Node{typ: 0xC00000, hopLimit: 63, nodeID: 0xB2, ingress: 201, egress: 202}, true,
			"007b 1003 c00000 00" + "3f0000b2 00c900ca"},
		{Node{typ: 0xC00000, hopLimit: 62, nodeID: 0xC3, ingress: 301, egress: 302}, true,
			"007b 1001 c00000 00" + "3e0000c3 012d012e" + "3f0000b2 00c900ca"},
		{Node{typ: 0xC00000, hopLimit: 61, nodeID: 0xD4, ingress: 401, egress: 402}, false,
			"007b 1401 c00000 00" + "3e0000c3 012d012e" + "3f0000b2 00c900ca"},
	} {
		o := Option{Type: OptTypeIncremental, Data: b}
		wiretest.Encodes(t, wiretest.Hex(t, c.want), func(b []byte) ([]byte, error) {
			out, added, err := AppendNode(b, o, &c.node)
			require.Equal(t, c.added, added)
			return out, err
		})
		b, _, _ = AppendNode(nil, o, &c.node)
	}
}

// Fields of the trace that the node does not have are written as unavailable.
func TestAddNodeThatLacksFields(t *testing.T) {
	for _, c := range []struct {
		name string
		typ  TraceType
		node Node
		want string
	}{
		{"queue depth missing", 0xC20000, Node{typ: 0xC00000, hopLimit: 9, nodeID: 1, ingress: 2, egress: 3},
			"09000001 00020003 ffffffff"},
		{"values without their bit do not count", 0x820000, Node{typ: BitNode, nodeID: 1, queueDepth: 7},
			"00000001 ffffffff"},
		{"fields that the trace does not have", BitQueueDepth, everyFieldNode, "00000007"},
		{"everything missing", 0x7FFFFE, Node{typ: BitNode, nodeID: 1}, ones(24) + "00ffffff"},
		{"wide", 0x00E000, Node{typ: BitWideNode, wideHopLimit: 9, wideNodeID: 1}, "0900000000000001" + ones(4)},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := wiretest.Hex(t, c.want)
			trace := Trace{Type: c.typ}
			b, err := trace.AppendFresh(nil, len(want)/4)
			require.NoError(t, err)
			added, err := AddNode(Option{Data: b}, &c.node)
			require.NoError(t, err)
			require.True(t, added)
			require.Equal(t, want, b[8:])
		})
	}
}

func TestAddNodeWithSnapshots(t *testing.T) {
	trace := Trace{Type: 0x800002}
	b := wiretest.Must(trace.AppendFresh(nil, 8))(t)
	o := Option{Data: b}
	for _, c := range []struct {
		data      string
		size      int
		added     bool
		remaining uint8
	}{
		{"abcdefgh", 16, true, 4}, // 1 word, 1 of the snapshot, 2 of data
		{"abcdefghijkl", 0, false, 4},
	} {
		n := Node{typ: 0x800002, nodeID: 1, snapshot: Snapshot{SchemaID: 2, Data: []byte(c.data)}}
		require.NoError(t, trace.Decode(o))
		size := wiretest.Must(trace.NodeSize(&n))(t)
		require.Equal(t, c.size, size)
		require.False(t, trace.Overflow, "unchanged")
		added := wiretest.Must(AddNode(o, &n))(t)
		require.Equal(t, c.added, added)
		require.NoError(t, trace.Decode(o))
		require.Equal(t, c.remaining, trace.RemainingLen)
		require.Equal(t, !c.added, trace.Overflow)
	}
	require.Equal(t, []Node{{typ: 0x800002, nodeID: 1, snapshot: Snapshot{SchemaID: 2, Data: []byte("abcdefgh")}}},
		slices.Collect(trace.Nodes()))
}

func TestAddNodeErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   OptType
		octets string
		node   Node
		err    error
	}{
		{"direct export", OptTypeDirectExport, "007b 1002 c00000 00 00000000 00000000", Node{}, nil},
		{"RemainingLen beyond the space", OptTypePreallocated, "007b 1003 c00000 00 00000000 00000000", Node{},
			errRemainingLen},
		{"wrong NodeLen", OptTypeIncremental, "007b 0803 c00000 00", Node{}, errNodeLen},
		{"no header", OptTypeIncremental, "007b", Node{}, errTruncatedTrace},
		{"node id of 25 bits", OptTypePreallocated, "007b 0801 800000 00 00000000",
			Node{typ: BitNode, nodeID: 0x1000000},
			errNodeIDRange},
		{"no field", OptTypePreallocated, "007b 0801 800000 00 00000000", Node{}, errNoField},
		{"values without their fields", OptTypePreallocated, "007b 1002 820000 00 00000000 00000000",
			Node{nodeID: 229, queueDepth: 4242}, errNoField},
		{"only the reserved bit", OptTypePreallocated, "007b 0801 800001 00 00000000", Node{typ: BitReserved},
			errNoField},
		{"no field, no space", OptTypePreallocated, "007b 0c00 800000 00", Node{}, errNoField},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wiretest.Hex(t, c.octets)
			o := Option{Type: c.kind, Data: bytes.Clone(b)}
			inPlace, inserted := c.err, c.err
			if c.kind != OptTypePreallocated {
				inPlace = errNotPreallocated
			}
			if c.kind != OptTypeIncremental {
				inserted = errNotIncremental
			}
			added, err := AddNode(o, &c.node)
			require.Equal(t, inPlace, err)
			require.False(t, added)
			out, added, err := AppendNode([]byte{0xA5}, o, &c.node)
			require.Equal(t, inserted, err)
			require.False(t, added)
			require.Equal(t, []byte{0xA5}, out)
			require.Equal(t, b, o.Data, "%s: unchanged", c.name)
		})
	}
}
