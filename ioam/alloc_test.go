package ioam

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestNoAllocations(t *testing.T) {
	hpcc := wiretest.Capture(t, "ioam-linux618-hpcc.pcap")[0].Data[54+6:][:70]
	full := longTrace(t, 61)
	snapshots := wiretest.Capture(t, "ioam-linux61-encap-oss-inline.pcap")[0].Data[54+6:][:110]
	buf, grown := make([]byte, 0, 512), make([]byte, 0, 512)
	for _, row := range []struct {
		name string
		b    []byte
	}{
		{"3 nodes", hpcc}, {"61 nodes", full}, {"snapshots", snapshots},
		{"a truncated trace", hpcc[:40]}, {"no header", hpcc[:7]}, {"nothing", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			wiretest.NoAllocs(t, "reading "+row.name, func() {
				var o Option
				var trace Trace
				var n Node
				if o.Decode(row.b) != nil || trace.Decode(o) != nil {
					return
				}
				for n := range trace.Nodes() {
					sink += uint64(n.availableFields()) + uint64(len(n.snapshot.Data))
				}
				for c := trace.Cursor(); c.Next(&n); {
					when, _ := n.Time(TimeFormatPOSIX)
					sink += uint64(when.Nanosecond())
				}
				trace.AppendBinary(buf)
				o.AppendBinary(buf)
			})
		})
	}

	wiretest.NoAllocs(t, "adding nodes", func() {
		trace := Trace{Type: everyFieldNode.typ}
		n := everyFieldNode
		b, _ := trace.AppendFresh(buf, 60)
		for range 4 { // two fit
			AddNode(Option{Data: b}, &n)
		}
		n.nodeID = 0xFFFFFFFF
		AddNode(Option{Data: b}, &n)
		AddNode(Option{Data: b[:9]}, &n)
		trace.NodeSize(&n)
		n.AppendBinary(buf)
	})
	wiretest.NoAllocs(t, "inserting a node", func() {
		trace := Trace{OptType: OptTypeIncremental, Type: everyFieldNode.typ}
		b, _ := trace.AppendFresh(buf, 60)
		AppendNode(grown, Option{Type: OptTypeIncremental, Data: b}, &everyFieldNode)
		AppendNode(grown, Option{Type: OptTypeIncremental, Data: b[:7]}, &everyFieldNode)
	})

	dex := wiretest.Hex(t, "007b 00 c0 f00000 00 00abcdef 00000007")
	e2e := wiretest.Hex(t, "007b f001 0102030405060708 01020304 6b016366 000ac170 00")
	pot := wiretest.Hex(t, "007b 00 80 0102030405060708 1112131415161718")
	wiretest.NoAllocs(t, "the other options, complete and truncated", func() {
		for _, cut := range []int{0, 1} {
			var d DirectExport
			var e EdgeToEdge
			var p ProofOfTransit
			d.Decode(Option{Type: OptTypeDirectExport, Data: dex[cut:]})
			e.Decode(Option{Type: OptTypeEdgeToEdge, Data: e2e[:len(e2e)-20*cut]})
			p.Decode(Option{Type: OptTypeProofOfTransit, Data: pot[:len(pot)-cut]})
			d.AppendBinary(buf)
			e.AppendBinary(buf)
			p.AppendBinary(buf)
			d.Type = 0x1000000
			d.AppendBinary(buf)
		}
	})
}

var sink uint64

// Functions that grow a slice allocate once.
func TestOneAllocation(t *testing.T) {
	full := longTrace(t, 61)
	var o Option
	var trace Trace
	require.NoError(t, o.Decode(full))
	require.NoError(t, trace.Decode(o))
	wiretest.OneAlloc(t, "a trace", trace.AppendBinary)

	empty := Trace{Type: everyFieldNode.typ}
	wiretest.OneAlloc(t, "a trace with free space", func(b []byte) ([]byte, error) { return empty.AppendFresh(b, 60) })
	incremental := Trace{OptType: OptTypeIncremental, Type: everyFieldNode.typ}
	fresh, err := incremental.AppendFresh(nil, 60)
	require.NoError(t, err)
	for range 2 {
		old := Option{Type: OptTypeIncremental, Data: fresh}
		wiretest.OneAlloc(t, "a trace with one node more", func(b []byte) ([]byte, error) {
			b, added, err := AppendNode(b, old, &everyFieldNode)
			require.True(t, added)
			return b, err
		})
		fresh, _, err = AppendNode(nil, old, &everyFieldNode)
		require.NoError(t, err)
	}

	wiretest.OneAlloc(t, "direct export", (&DirectExport{ExtensionFlags: 0xFF}).AppendBinary)
	wiretest.OneAlloc(t, "edge to edge", (&EdgeToEdge{Type: 0xFFFF, Rest: make([]byte, 40)}).AppendBinary)
	wiretest.OneAlloc(t, "proof of transit", (&ProofOfTransit{Type: 1, Data: make([]byte, 40)}).AppendBinary)
	wiretest.OneAlloc(t, "proof of transit, type 0", (&ProofOfTransit{}).AppendBinary)
}

// longTrace returns the data of an IPv6 option with a trace of this number of nodes.
// Each has the five words of congestion control if they fit, otherwise one word.
func longTrace(t testing.TB, nodes int) []byte {
	typ := congestion
	if nodes*typ.NodeLen() > 61 {
		typ = BitNode
	}
	n := everyFieldNode
	n.typ = typ
	node, err := n.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	trace := Trace{Namespace: 123, Type: typ, Data: bytes.Repeat(node, nodes)}
	b, err := trace.AppendBinary([]byte{0, uint8(OptTypePreallocated)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func BenchmarkAddNode(b *testing.B) {
	trace := Trace{Namespace: 123, Type: congestion}
	fresh, err := trace.AppendFresh(nil, 5)
	if err != nil {
		b.Fatal(err)
	}
	data, n := bytes.Clone(fresh), everyFieldNode
	b.ReportAllocs()
	for b.Loop() {
		copy(data, fresh)
		if added, err := AddNode(Option{Data: data}, &n); !added || err != nil {
			b.Fatal(added, err)
		}
	}
}

func BenchmarkDirectExport(b *testing.B) {
	o := Option{Type: OptTypeDirectExport, Data: wiretest.Hex(b, "007b 00 c0 f00000 00 00abcdef 00000007")}
	var d DirectExport
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Decode(o); err != nil {
			b.Fatal(err)
		}
	}
}
