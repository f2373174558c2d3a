package qpmap_test

import (
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
		if what&0x40 != 0 { // many queue pairs
			c.a, c.b = c.a+psn<<2, c.b+psn<<2
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
