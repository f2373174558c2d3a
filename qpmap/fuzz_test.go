package qpmap_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// play makes up packets, each of four octets of a script.
func play(script []byte, each func(p *rocev2.Packet, now time.Time)) {
	now := start
	ops := []bth.Opcode{
		bth.RCSendOnly, bth.RCAcknowledge, bth.RCRDMAReadRequest, bth.RCRDMAReadResponseOnly, bth.UCSendOnly,
		bth.UDSendOnly,
		bth.RCSendFirst,
	}
	for ; len(script) >= 4; script = script[4:] {
		what, qps, psn, gap := script[0], script[1], uint32(script[2]), script[3]
		now = now.Add(time.Duration(int8(gap)) * time.Second / 4)
		c := live()
		c.a, c.b = 2+uint32(qps&3), 2+uint32(qps>>2&3)
		c.psnA, c.psnB, c.commA, c.commB = psn<<14, psn<<13, uint32(qps>>4&3), uint32(qps>>6)
		if qps&0x0F == 0x0F { // that of multicast
			c.b = 0xFFFFFF
		}
		if what&0x40 != 0 { // many queue pairs
			c.a, c.b = c.a+psn<<2, min(c.b+psn<<2, 0xFFFFFF)
		}
		if what&0x80 != 0 {
			c = c.turned()
		}
		var p rocev2.Packet
		switch kind := int(what & 0x0F); {
		case kind < len(ops):
			p = packet(c.A, c.B, ops[kind], c.b, c.psnA+uint32(what>>4&3))
			p.BTH.DETH.SrcQP, p.BTH.RETH.DMALength = c.a, psn<<18
		default:
			p = []rocev2.Packet{c.req(), c.rep(), c.dreq(), c.drep(), c.rej()}[kind%5]
		}
		each(&p, now)
	}
}

// Any packets cause no panic, no table beyond its maximum, and no pair in one direction that
// contradicts the other.
func FuzzObserve(f *testing.F) {
	f.Fuzz(func(t *testing.T, script []byte) {
		m := qpmap.New(qpmap.Config{MaxPairs: 8, MaxPending: 2, MaxOpen: 4, Idle: time.Minute})
		play(script, func(p *rocev2.Packet, now time.Time) {
			m.Observe(p, 0, now)
			s := m.Stats()
			if s.Pairs > 8 || s.Pending > 2 || s.Open > 4 {
				t.Fatalf("%+v", s)
			}
			for k, pair := range m.All() {
				if pair.From == qpmap.BasisUD || k.DestQP <= cm.QP {
					continue
				}
				mate, err := m.SourceQP(qpmap.Key{FlowKey: rocev2.FlowKey{Src: k.Dst, Dst: k.Src, DestQP: pair.SrcQP}},
					now)
				if err == nil && mate.From != qpmap.BasisUD && mate.SrcQP != k.DestQP {
					t.Fatalf("%v from %v, but back to %v", k, pair, mate)
				}
			}
		})
	})
}

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
