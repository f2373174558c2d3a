package ioam

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestNodeAppend(t *testing.T) {
	wiretest.Encodes(t, wiretest.Hex(t, everyField), everyFieldNode.AppendBinary)

	n := everyFieldNode
	n.typ = 0x308002
	wiretest.Encodes(t, wiretest.Hex(t, "6b016366 000ac170 41 00a1a1a1a1a1a1 02 00029a 48656c6c 6f212121"),
		n.AppendBinary)
	n.typ = BitReserved
	wiretest.Encodes(t, nil, n.AppendBinary)
}

func TestNodeAppendRejects(t *testing.T) {
	for _, c := range []struct {
		node Node
		err  error
	}{
		{Node{typ: 0x1000000}, errTraceTypeRange},
		{Node{typ: BitNode, nodeID: 0x1000000}, errNodeIDRange},
		{Node{typ: BitWideNode, wideNodeID: 1 << 56}, errNodeIDRange},
		{Node{typ: BitSnapshot, snapshot: Snapshot{SchemaID: 0x1000000}}, errSchemaIDRange},
		{Node{typ: BitSnapshot, snapshot: Snapshot{Data: make([]byte, 3)}}, errSnapshotLen},
		{Node{typ: BitSnapshot, snapshot: Snapshot{Data: make([]byte, 1024)}}, errSnapshotLen},
	} {
		b, err := c.node.AppendBinary([]byte{0xA5})
		require.Equal(t, c.err, err)
		require.ErrorIs(t, err, wireerr.Range)
		require.Equal(t, []byte{0xA5}, b)
	}
}

// An unavailable field is all ones. One of two parts of a field can be available.
func TestNodeID(t *testing.T) {
	for _, c := range []struct {
		name  string
		node  Node
		id    uint64
		known bool
	}{
		{"none", Node{}, 0, false},
		{"a value without its bit", Node{nodeID: 7, wideNodeID: 8}, 0, false},
		{"short", Node{typ: BitNode, nodeID: 7}, 7, true},
		{"wide", Node{typ: BitWideNode, wideNodeID: 1 << 40}, 1 << 40, true},
		{"both", Node{typ: BitNode | BitWideNode, nodeID: 7, wideNodeID: 8}, 7, true},
		{"short unavailable", Node{typ: BitNode | BitWideNode, nodeID: noNodeID, wideNodeID: 8}, 8, true},
		{"both unavailable", Node{typ: BitNode | BitWideNode, nodeID: noNodeID, wideNodeID: noWideNodeID}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, known := c.node.ID()
			require.Equal(t, c.id, id)
			require.Equal(t, c.known, known)
		})
	}
}

func TestAvailableFields(t *testing.T) {
	for _, c := range []struct {
		name string
		typ  TraceType
		node string
		want TraceType
	}{
		{"everything known", 0xFFFFFE, everyField, 0xFFFFFE},
		{"nothing known", 0xFFFFFE, ones(25) + "00ffffff", 0},
		{"node_id unknown", BitNode, "3dffffff", BitNode},
		{"hop limit 255", BitNode, "ff0000d4", BitNode},
		{"ingress unknown, as at the first node", BitInterfaces, "ffff0065", BitInterfaces},
		{"egress unknown", BitInterfaces, "0065ffff", BitInterfaces},
		{"delay overflow is a value", BitTransitDelay, "80000000", BitTransitDelay},
		{"delay unknown", BitTransitDelay, "ffffffff", 0},
		{"wide node_id unknown", BitWideNode, "3dffffff ffffffff", BitWideNode},
		{"wide ingress unknown", BitWideInterfaces, "ffffffff 00000001", BitWideInterfaces},
		{"half of the wide namespace data all ones", BitWideNamespaceData, "ffffffff 00000000", BitWideNamespaceData},
		{"an undefined bit filled all the same", 0x000C00, "ffffffff 00000001", 0x000400},
		{"a schema without data", BitSnapshot, "0000029a", BitSnapshot},
		{"data without a schema", BitSnapshot, "01ffffff 00000000", BitSnapshot},
		{"queue depth known, the rest not", 0xF20001, ones(4) + "00000007", BitQueueDepth},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n Node
			require.Empty(t, n.readFields(wiretest.Hex(t, c.node), c.typ))
			require.Equal(t, c.want, n.availableFields())
		})
	}
}

func TestNodeString(t *testing.T) {
	require.Equal(t,
		"node 0xa1 at hop limit 64, interfaces 401 to 402, seconds 1795253094, fraction 704880, transit delay 257, "+
			"namespace data 0xbadcafe, queue depth 7, checksum complement 0xbeef, wide node 0xa1a1a1a1a1a1 at hop "+
			"limit 65, wide interfaces 401401 to 402402, "+
			"wide namespace data 0xcafec0caf1adc0de, buffer occupancy 3056, "+
			"bit 12 0xc00, bit 13 0xc01, bit 14 0xc02, bit 15 0xc03, bit 16 0xc04, bit 17 0xc05, bit 18 0xc06, bit "+
			"19 0xc07, bit 20 0xc08, bit 21 0xc09, "+
			"snapshot of schema 666: 48656c6c6f212121", everyFieldNode.String())
	require.Equal(t, "node 0xd4 at hop limit 61, queue depth unavailable",
		Node{typ: BitNode | BitQueueDepth | BitReserved, hopLimit: 61, nodeID: 0xD4, queueDepth: noValue}.String())
	require.Empty(t, Node{}.String())
}

func ones(words int) (s string) {
	for range words {
		s += "ffffffff "
	}
	return s
}

func TestTimeFormats(t *testing.T) {
	for _, c := range []struct {
		format            TimeFormat
		seconds, fraction uint32
		want              string // empty: not a time
	}{
		{TimeFormatPOSIX, 0, 0, "1970-01-01T00:00:00Z"},
		{TimeFormatPOSIX, 1795253094, 704880, "2026-11-21T09:24:54.70488Z"},
		{TimeFormatPOSIX, 0xFFFFFFFF, 999999, "2106-02-07T06:28:15.999999Z"},
		{TimeFormatPOSIX, 1795253094, 1000000, ""},
		{TimeFormatPOSIX, 1795253094, 0xFFFFFFFF, ""},

		{TimeFormatPTP, 0, 0, "1970-01-01T00:00:00Z"}, // in TAI
		{TimeFormatPTP, 1795253131, 704880123, "2026-11-21T09:25:31.704880123Z"},
		{TimeFormatPTP, 0xFFFFFFFF, 999999999, "2106-02-07T06:28:15.999999999Z"},
		{TimeFormatPTP, 1795253131, 1000000000, ""},

		{TimeFormatNTP, 0x80000000, 0, "1968-01-20T03:14:08Z"},
		{TimeFormatNTP, 2208988800, 0, "1970-01-01T00:00:00Z"},
		{TimeFormatNTP, 0xFFFFFFFF, 0x80000000, "2036-02-07T06:28:15.5Z"},
		{TimeFormatNTP, 0, 0, "2036-02-07T06:28:16Z"},
		{TimeFormatNTP, 0x7FFFFFFF, 0xFFFFFFFF, "2104-02-26T09:42:23.999999999Z"},

		{TimeFormat(3), 0, 0, ""},
	} {
		got, ok := c.format.toTime(c.seconds, c.fraction)
		require.Equal(t, c.want != "", ok)
		if ok {
			require.Equal(t, c.want, got.Format(time.RFC3339Nano))
		}
	}
	require.Equal(t, []string{"PTP", "NTP", "POSIX", "TimeFormat(9)"},
		[]string{TimeFormatPTP.String(), TimeFormatNTP.String(), TimeFormatPOSIX.String(), TimeFormat(9).String()})
}

func TestTimeOfANode(t *testing.T) {
	both := BitSeconds | BitFraction
	for _, c := range []struct {
		name              string
		typ               TraceType
		seconds, fraction uint32
		want              string // empty: none
	}{
		{"seconds and fraction", both, 100, 5, "1970-01-01T00:01:40.000005Z"},
		{"only seconds", BitSeconds, 100, 5, "1970-01-01T00:01:40Z"},
		{"fraction unavailable", both, 100, noValue, "1970-01-01T00:01:40Z"},
		{"seconds unavailable", both, noValue, 5, ""},
		{"no seconds", BitFraction, 100, 5, ""},
		{"fraction out of range", both, 100, 1e6, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := Node{typ: c.typ, seconds: c.seconds, fraction: c.fraction}
			got, ok := n.Time(TimeFormatPOSIX)
			require.Equal(t, c.want != "", ok)
			if ok {
				require.Equal(t, c.want, got.Format(time.RFC3339Nano))
			}
		})
	}
}

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
		{"no space", Trace{Namespace: 123, Type: 0xC00000}, 0, "007b 1000 c00000 00"},
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
