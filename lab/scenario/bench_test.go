package scenario

import (
	"os"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab"
)

// 128 hosts of 100 Gbit/s at half load for 10 ms, of leaf and spine: an op is a run.
func BenchmarkLeafSpine(b *testing.B) {
	text, err := os.ReadFile("../docs/scenarios/leaf-spine.json")
	if err != nil {
		b.Fatal(err)
	}
	s, err := Read(text)
	if err != nil {
		b.Fatal(err)
	}
	events, hops := uint64(0), uint64(0)
	b.ReportAllocs()
	began := wiretest.CPUTime()
	for b.Loop() {
		r, err := s.prepare(lab.FastCNP, 1)
		if err != nil {
			b.Fatal(err)
		}
		r.through(b.Context(), s, func(float64) {})
		if r.result.Err != nil {
			b.Fatal(r.result.Err)
		}
		events += r.result.Events
		hops += r.result.Counts.Hops
	}
	took := (wiretest.CPUTime() - began).Seconds()
	b.ReportMetric(float64(events)/took/1e6, "Mevents/s")
	b.ReportMetric(float64(hops)/took/1e6, "Mhops/s")
	b.ReportMetric(took/float64(b.N), "s/op")
}
