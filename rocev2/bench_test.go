package rocev2

import (
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// cnp6 is a CNP over IPv6 in Ethernet, 94 octets.
func cnp6(tb testing.TB) []byte {
	p := Packet{
		Datagram: Datagram{Src: addr("2001:db8::1"), Dst: addr("2001:db8::2"), TrafficClass: 0xC0, HopLimit: 64,
			DstPort: Port},
		BTH:     bth.Headers{Header: bth.Header{Opcode: bth.CNP, PKey: 0xFFFF, BECN: true, DestQP: 0x118}},
		Payload: make([]byte, 16),
	}
	out, err := p.AppendBinary(wiretest.Hex(tb, "020000000001 020000000002 86dd"))
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// BenchmarkWalk decodes an IPv6 CNP, from the Ethernet header to the ICRC. Folder bench compares it with other
// decoders.
func BenchmarkWalk(b *testing.B) {
	frame := cnp6(b)
	b.Run("walk", func(b *testing.B) {
		var p Packet
		b.ReportAllocs()
		for b.Loop() {
			if err := p.DecodeEthernet(frame); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("walk of any frame", func(b *testing.B) { // without decodePlain
		var p Packet
		b.ReportAllocs()
		for b.Loop() {
			if err := p.decode(frame, DecodeOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("walk+icrc", func(b *testing.B) {
		var p Packet
		b.ReportAllocs()
		for b.Loop() {
			if err := p.DecodeEthernet(frame); err != nil {
				b.Fatal(err)
			}
			if _, err := icrc.Verify(p.IP); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("build", func(b *testing.B) {
		var p Packet
		if err := p.DecodeEthernet(frame); err != nil {
			b.Fatal(err)
		}
		out := make([]byte, 0, 128)
		b.ReportAllocs()
		for b.Loop() {
			var err error
			if out, err = p.AppendBinary(out[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
