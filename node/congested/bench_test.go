package congested_test

import (
	"testing"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
)

// A decision with the Fast CNP built, beside decoding and building alone. Each
// core has an agent of its own: run with -cpu 1,2.
func BenchmarkCongested(b *testing.B) {
	for _, c := range []struct {
		name  string
		frame []byte
	}{
		{"Option1", data(b)}, {"Option2", data(b, func(p *rocev2.Packet) { p.Ext = wiretest.Hex(b, hops) })},
	} {
		b.Run(c.name+"/DecodeAndBuild", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				var p rocev2.Packet
				cfg := fastcnp.Config{}
				buf := make([]byte, 0, 4096)
				for pb.Next() {
					if p.DecodeIP(c.frame) != nil {
						b.Fail()
					}
					if _, _, err := fastcnp.AppendFor(buf, &p, self6, nil, cfg); err != nil {
						b.Fail()
					}
				}
			})
		})
		b.Run(c.name+"/Decide", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				cfg := method(congested.MethodFastCNP)
				cfg.Out, cfg.PerFlow[0] = node.Rate{PerSecond: 1e9, Burst: 1}, time.Microsecond
				a := agent(b, cfg)
				var f rocev2.Frame
				buf := make([]byte, 0, 4096)
				now := now
				for pb.Next() {
					now = now.Add(time.Microsecond)
					f.Decode(c.frame, ip)
					if _, d := a.Receive(buf, &f, node.Event{Now: now}); d.Message != message.KindFastCNP {
						b.Fail()
					}
				}
			})
		})
	}
}

// BenchmarkLimited measures packets that a limit keeps from being answered, as most packets of a congested queue are.
func BenchmarkLimited(b *testing.B) {
	cfg := method(congested.MethodFastCNP)
	cfg.PerFlow[0] = time.Hour
	a := agent(b, cfg)
	packet := data(b)
	var f rocev2.Frame
	buf, _ := congest(a, nil, &event{Frame: packet, Options: ip}, now)
	b.ReportAllocs()
	for b.Loop() {
		f.Decode(packet, ip)
		a.Receive(buf[:0], &f, node.Event{Now: now})
	}
}
