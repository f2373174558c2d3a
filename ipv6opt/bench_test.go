package ipv6opt

import "testing"

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
