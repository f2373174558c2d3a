package fastcnp

import (
	"testing"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/rocev2"
)

func BenchmarkFastCNP(b *testing.B) {
	for _, c := range []struct {
		name string
		ext  []byte
	}{
		{"option1", nil},
		{"option2", hopByHop(b, trace(1, 20, 20))},
	} {
		data := congested(b, 0, c.ext)
		out, _, err := AppendFor(nil, data, loopback, nil, Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/build", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				out, _, _ = AppendFor(out[:0], data, loopback, nil, Config{})
			}
		})
		b.Run(c.name+"/icrc", func(b *testing.B) { // ICRC of the same packet, the minimum
			for b.Loop() {
				_, _ = icrc.Sum(out, icrc.AsSent)
			}
		})
		var p rocev2.Packet
		if err := p.DecodeIP(out); err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = FromPacket(&p, CodePoints{})
			}
		})
	}
}
