package qpmap_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// The cost of a packet beside 65,536 pairs, all in use, in no order.
func BenchmarkMap(b *testing.B) {
	m := qpmap.New(qpmap.Config{})
	r := rand.New(rand.NewPCG(1, 1))
	const connections = 1 << 15
	forth := make([]rocev2.Packet, connections)
	back := make([]rocev2.Packet, connections)
	for n := range forth {
		c := &connection{
			A: netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), B: netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)}),
			a: 2 + r.Uint32N(1<<20), b: 2 + r.Uint32N(1<<20), psnA: r.Uint32() & 0xFFFFFF, commA: uint32(n), commB: uint32(n), mtu: 5,
		}
		observe(m, start, c.req(), c.rep())
		forth[n], back[n] = c.request(0), c.ack(0)
		observe(m, start, forth[n], back[n])
	}
	if m.Stats().Pairs != 2*connections {
		b.Fatal(m.Stats())
	}
	r.Shuffle(connections, func(i, j int) { forth[i], forth[j], back[i], back[j] = forth[j], forth[i], back[j], back[i] })
	each := func(name string, f func(n int)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				f(n % connections)
			}
		})
	}
	each("Observe request", func(n int) {
		forth[n].BTH.PSN = (forth[n].BTH.PSN + 1) & 0xFFFFFF
		m.Observe(&forth[n], 0, start)
	})
	each("Observe response", func(n int) {
		back[n].BTH.PSN = forth[n].BTH.PSN
		m.Observe(&back[n], 0, start)
	})
	each("SourceQP", func(n int) {
		if _, err := m.SourceQP(forth[n].FlowKey(), 0, start); err != nil {
			b.Fatal(err)
		}
	})
	each("SourceQP unknown", func(n int) {
		k := forth[n].FlowKey()
		k.DestQP = 1 << 23
		m.SourceQP(k, 0, start)
	})
	all := make([]rocev2.Packet, 4096) // requests of flows without a pair
	for n := range all {
		all[n] = packet(randomAddr(r), randomAddr(r), 0x04, 2+r.Uint32N(1<<20), r.Uint32())
	}
	each("Observe new flow", func(n int) {
		p := &all[n%len(all)]
		p.BTH.DestQP = uint32(2 + n)
		m.Observe(p, 0, start)
	})
}
