package ipv6opt

import (
	"bytes"
	"testing"
)

// Any header that decodes is encoded to the same octets, and its options follow each
// other without gaps.
func FuzzHeader(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Header
		rest, err := h.Decode(b)
		if err != nil {
			return
		}
		out, err := h.AppendBinary(nil)
		if err != nil || !bytes.Equal(append(out, rest...), b) {
			t.Fatalf("%x became %x and %x (%v)", b, out, rest, err)
		}
		end, broken := 2, false
		for o, err := range h.All() {
			if broken || int(o.Offset) != end || out[end] != uint8(o.Type) {
				t.Fatalf("option %v at %d: want %d", o.Type, o.Offset, end)
			}
			broken = err != nil
			if o.Type != Pad1 {
				end++
			}
			end += 1 + len(o.Data)
			if _, ok, err := h.Find(o.Type); !broken && (!ok || err != nil) {
				t.Fatalf("option %v not found: %v", o.Type, err)
			}
		}
		if !broken && end != len(out) {
			t.Fatalf("options end at %d of %d", end, len(out))
		}
		if err := (Limits{}).Check(&h); broken && err == nil {
			t.Fatal("the limits accept an invalid header")
		}
	})
}

// Any options that are built decode to the same options, with their alignment and
// within the limits of padding.
func FuzzBuilder(f *testing.F) {
	f.Fuzz(func(t *testing.T, one, two []byte, x uint8, y int) {
		w := Begin(nil, 17)
		var added [][]byte
		for _, data := range [][]byte{one, two} {
			if w.Add(0x1E, int(x), y, data) == nil {
				added = append(added, data)
			}
		}
		var h Header
		if rest, err := h.Decode(w.Finish()); err != nil || len(rest) != 0 {
			t.Fatalf("%x left over, error %v", rest, err)
		}
		if err := (Limits{}).Check(&h); err != nil {
			t.Fatal(err)
		}
		for o, err := range h.All() {
			switch {
			case err != nil:
				t.Fatal(err)
			case o.Type.IsPadding():
			case len(added) == 0 || int(o.Offset)%int(x) != y || !bytes.Equal(o.Data, added[0]):
				t.Fatalf("option at %d with %x", o.Offset, o.Data)
			default:
				added = added[1:]
			}
		}
		if len(added) != 0 {
			t.Fatalf("%d options missing", len(added))
		}
	})
}

func BenchmarkAll(b *testing.B) {
	h := Header{Options: []byte{1, 0, 0x31, 4, 1, 2, 3, 4, 0x11, 2, 0, 0, 0, 0x1E, 3, 1, 2, 3, 1, 2, 0, 0}}
	b.ReportAllocs()
	for b.Loop() {
		for o, err := range h.All() { // six options
			if err != nil {
				b.Fatal(err)
			}
			sink += len(o.Data)
		}
	}
}

func BenchmarkBuilder(b *testing.B) {
	buf, address := make([]byte, 0, 64), make([]byte, 16)
	b.ReportAllocs()
	for b.Loop() {
		w := Begin(buf, 17)
		if err := w.Add(0x9E, 4, 2, address); err != nil {
			b.Fatal(err)
		}
		sink += len(w.Finish())
	}
}
