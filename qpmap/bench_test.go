package qpmap_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/qpmap"
)

// The cost of a packet beside 65,536 pairs, all in use, in no order.
func BenchmarkMap(b *testing.B) {
	m := qpmap.New(qpmap.Config{})
	r := rand.New(rand.NewPCG(1, 1))
	const connections = 1 << 15
	cs := make([]connection, connections)
	for n := range cs {
		cs[n] = connection{
			A: netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}),
			B: netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)}),
			a: 2 + r.Uint32N(1<<20), b: 2 + r.Uint32N(1<<20), psnA: r.Uint32() & 0xFFFFFF, commA: uint32(n),
			commB: uint32(n), mtu: 5,
		}
		c := &cs[n]
		observe(m, start, c.req(), c.rep(), c.request(0), c.ack(0))
	}
	if m.Stats().Pairs != 2*connections {
		b.Fatal(m.Stats())
	}
	r.Shuffle(connections, func(i, j int) { cs[i], cs[j] = cs[j], cs[i] })
	forth, back := cs[0].request(0), cs[0].ack(0)
	each := func(name string, f func(n int, c *connection)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				f(n, &cs[n%connections])
			}
		})
	}
	each("Observe request", func(_ int, c *connection) {
		c.psnA = (c.psnA + 1) & 0xFFFFFF
		forth.Src, forth.Dst, forth.BTH.DestQP, forth.BTH.PSN = c.A, c.B, c.b, c.psnA
		m.Observe(&forth, 0, start)
	})
	each("Observe response", func(_ int, c *connection) {
		back.Src, back.Dst, back.BTH.DestQP, back.BTH.PSN = c.B, c.A, c.a, c.psnA
		m.Observe(&back, 0, start)
	})
	each("SourceQP", func(_ int, c *connection) {
		if _, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start); err != nil {
			b.Fatal(err)
		}
	})
	each("SourceQP unknown", func(_ int, c *connection) {
		k := c.forth()
		k.DestQP = 1 << 23
		m.SourceQP(qpmap.Key{FlowKey: k}, start)
	})
	each("Observe new flow", func(n int, c *connection) {
		forth.Src, forth.Dst, forth.BTH.DestQP, forth.BTH.PSN = c.A, c.B, uint32(1<<23+n&0xFFFFF), uint32(n&0xFFFFFF)
		m.Observe(&forth, 0, start)
	})
}
