package ioam

import (
	"bytes"
	"reflect"
	"testing"
)

// identity fails the test unless an option that decodes is encoded to the same octets.
func identity(t *testing.T, decoded error, appendTo func([]byte) ([]byte, error), b []byte) {
	t.Helper()
	if decoded != nil {
		return
	}
	out, err := appendTo(bytes.Repeat([]byte{0xA5}, len(b)+8)[:0])
	if err != nil || !bytes.Equal(out, b) {
		t.Fatalf("%x became %x (%v)", b, out, err)
	}
}

func FuzzOption(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		var o Option
		err := o.Decode(b)
		if len(b) <= 255 {
			identity(t, err, o.AppendBinary, b)
		}
	})
}

// A trace that decodes is encoded to the same octets, and so are its nodes.
func FuzzTrace(f *testing.F) {
	f.Fuzz(func(t *testing.T, incremental bool, b []byte) {
		o := Option{Type: OptTypePreallocated, Data: b}
		if incremental {
			o.Type = OptTypeIncremental
		}
		var trace Trace
		err := trace.Decode(o)
		identity(t, err, trace.AppendBinary, b)
		if err != nil {
			return
		}
		var nodes []byte
		for n := range trace.Nodes() {
			before := len(nodes)
			if nodes, err = n.AppendBinary(nodes); err != nil {
				t.Fatal(err)
			}
			if len(nodes) == before {
				t.Fatal("a node without octets")
			}
			if n.availableFields()&^n.typ != 0 {
				t.Fatal("a field is available that is not in the trace")
			}
		}
		if !bytes.Equal(nodes, trace.NodeData()) {
			t.Fatalf("nodes %x became %x", trace.NodeData(), nodes)
		}
	})
}

func FuzzDirectExport(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		var d DirectExport
		identity(t, d.Decode(Option{Type: OptTypeDirectExport, Data: b}), d.AppendBinary, b)
	})
}

func FuzzEdgeToEdge(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		var e EdgeToEdge
		identity(t, e.Decode(Option{Type: OptTypeEdgeToEdge, Data: b}), e.AppendBinary, b)
	})
}

func FuzzProofOfTransit(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		var p ProofOfTransit
		identity(t, p.Decode(Option{Type: OptTypeProofOfTransit, Data: b}), p.AppendBinary, b)
	})
}

// A node that is added to a trace is then its newest node; the others and the rest of
// the free space are unchanged. A node that does not fit only sets O.
func FuzzAddNode(f *testing.F) {
	f.Fuzz(func(t *testing.T, incremental bool, b, node []byte) {
		o := Option{Type: OptTypePreallocated, Data: bytes.Clone(b)}
		if incremental {
			o.Type = OptTypeIncremental
		}
		var before, after Trace
		if before.Decode(Option{Type: o.Type, Data: b}) != nil {
			return
		}
		var n Node
		n.readFields(node, before.Type)
		n.snapshot.Data = n.snapshot.Data[:len(n.snapshot.Data)&^3]
		octets, err := n.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}

		size, err := before.NodeSize(&n)
		if before.Type&^BitReserved == 0 {
			if err != errNoField {
				t.Fatalf("a node without a field: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}

		var added bool
		if incremental {
			o.Data, added, err = AppendNode(nil, o, &n)
		} else {
			added, err = AddNode(o, &n)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := after.Decode(o); err != nil {
			t.Fatalf("%x became %x: %v", b, o.Data, err)
		}
		want := before
		if room := !before.Overflow && len(octets) <= 4*int(before.RemainingLen); room != added {
			t.Fatalf("added %v, with %d words of space for %d octets, overflow %v", added, before.RemainingLen,
				len(octets), before.Overflow)
		}
		if added {
			want.RemainingLen -= uint8(len(octets) / 4)
		} else {
			octets = nil
			want.Overflow = true
		}
		if size != len(octets) {
			t.Fatalf("NodeSize %d, added %d octets", size, len(octets))
		}
		free := len(before.Data) - len(before.NodeData())
		if !incremental {
			free -= len(octets)
		}
		want.Data = bytes.Join([][]byte{before.Data[:free], octets, before.NodeData()}, nil)
		if !reflect.DeepEqual(after, want) {
			t.Fatalf("%+v\nbecame %+v\n  want %+v", before, after, want)
		}
	})
}
