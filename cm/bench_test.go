package cm_test

import (
	"testing"

	"github.com/rocecn/rocecn/cm"
)

func BenchmarkREQ(b *testing.B) {
	wire := octets(b, messages[0].octets)
	var m cm.REQ
	b.Run("Decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Decode(wire)
		}
	})
	b.Run("AppendBinary", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, cm.MessageSize)
		for b.Loop() {
			m.AppendBinary(buf)
		}
	})
}
