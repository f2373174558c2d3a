package lab

import (
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab/sim"
)

// Four flows of 40 Gbit/s share a port, at their fixed point: an op is 100 µs.
func BenchmarkLab(b *testing.B) {
	for _, v := range []Variant{None, CNP, FastCNP, PPFC, HPCC, HPCCFastCNPOwn} {
		b.Run(v.String(), func(b *testing.B) {
			cfg := dcqcn(v)
			cfg.RED = RED{Min: 5000, Max: 200_000, Probability: 0.01}
			cfg.HPCC, cfg.Pausing = hpccOf(10*time.Microsecond), pausing()
			n, _ := star(cfg, 4, 40*sim.Gbps, µs)
			rate := 40 * sim.Gbps
			if v == None {
				rate /= 4 // the queue must not grow
			}
			for _, h := range n.Hosts()[:4] {
				must(n.Flow(h, n.Hosts()[4], rate)).Endless()
			}
			n.Until(30 * ms)
			events, hops := n.Sim.Events(), n.Counts().Hops
			b.ReportAllocs()
			b.ResetTimer()
			began := wiretest.CPUTime()
			for range b.N {
				n.Until(n.Sim.Now() + 100*µs)
			}
			s := (wiretest.CPUTime() - began).Seconds() * 1e6
			b.ReportMetric(float64(n.Sim.Events()-events)/s, "Mevents/s")
			b.ReportMetric(float64(n.Counts().Hops-hops)/s, "Mhops/s")
		})
	}
}
