package ioam

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
)

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

// Decoding of a trace and of all fields of its nodes.
func BenchmarkTrace(b *testing.B) {
	for _, count := range []int{3, 11, 61} {
		var o Option
		if err := o.Decode(longTrace(b, count)); err != nil {
			b.Fatal(err)
		}
		var t Trace
		perNode := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/node")
		}
		b.Run(fmt.Sprintf("nodes=%d/header", count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := t.Decode(o); err != nil {
					b.Fatal(err)
				}
			}
			perNode(b)
		})
		b.Run(fmt.Sprintf("nodes=%d/cursor", count), func(b *testing.B) {
			b.ReportAllocs()
			var n Node
			for b.Loop() {
				if err := t.Decode(o); err != nil {
					b.Fatal(err)
				}
				for c := t.Cursor(); c.Next(&n); {
					sink += allFields(&n)
				}
			}
			perNode(b)
		})
		b.Run(fmt.Sprintf("nodes=%d/range", count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := t.Decode(o); err != nil {
					b.Fatal(err)
				}
				for n := range t.Nodes() {
					sink += allFields(&n)
				}
			}
			perNode(b)
		})
	}
}

func allFields(n *Node) uint64 {
	return uint64(n.hopLimit) + uint64(n.nodeID) + uint64(n.ingress) + uint64(n.egress) +
		uint64(n.seconds) + uint64(n.fraction) + uint64(n.queueDepth)
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
