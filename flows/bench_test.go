package flows_test

import (
	"testing"
	"time"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// BenchmarkPacket measures decoding, with and without the ICRC check, and counting.
func BenchmarkPacket(b *testing.B) {
	capture := wiretest.Capture(b, "rxe-perf4.pcap")
	packets := make([]flows.Packet, len(capture))
	decode := func(d *flows.Decoder) {
		for i, r := range capture {
			d.Decode(&packets[i], r.Data, rocev2.DecodeOptions{AllowTruncated: len(r.Data) < r.OrigLen})
		}
	}
	each := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(capture)), "ns/packet")
	}
	b.Run("do=decode", func(b *testing.B) {
		var d flows.Decoder
		for b.Loop() {
			decode(&d)
		}
		each(b)
	})
	b.Run("do=decode-no-icrc", func(b *testing.B) {
		d := flows.Decoder{NoICRC: true}
		for b.Loop() {
			decode(&d)
		}
		each(b)
	})
	b.Run("do=count", func(b *testing.B) {
		decode(new(flows.Decoder))
		table := flows.New(flows.Config{})
		for b.Loop() {
			for i := range packets {
				table.Observe(&packets[i], uint64(i), time.Unix(1, 0))
			}
		}
		each(b)
	})
}
