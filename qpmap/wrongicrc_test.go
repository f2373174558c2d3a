package qpmap_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Responses and CM messages with a wrong ICRC teach nothing: their receiver drops them.
func TestWrongICRC(t *testing.T) {
	isResponse := func(p *rocev2.Packet) bool {
		op := p.BTH.Opcode.Operation()
		return op >= bth.OpRDMAReadResponseFirst && op <= bth.OpAtomicAcknowledge
	}
	isCM := func(p *rocev2.Packet) bool { return p.BTH.DestQP == cm.QP }
	for _, c := range []struct {
		name, capture string
		withCM        bool
		change        func(p *rocev2.Packet) bool // reports whether the ICRC is to be wrong
		pairs         int
	}{
		{"right", "rxe-ucmatose4.pcap", true, func(*rocev2.Packet) bool { return false }, 4},
		{"CM", "rxe-ucmatose4.pcap", true, func(p *rocev2.Packet) bool { return isCM(p) || isResponse(p) }, 0},
		{"truncated CM", "rxe-ucmatose4.pcap", true, func(p *rocev2.Packet) bool {
			p.Truncated = isCM(p)
			return p.Truncated || isResponse(p)
		}, 4},
		{"responses", "rxe-perf4.pcap", false, isResponse, 0},
		{"truncated responses", "rxe-perf4.pcap", false, func(p *rocev2.Packet) bool {
			p.Truncated = isResponse(p)
			return p.Truncated
		}, 6},
		{"requests", "rxe-perf4.pcap", false, func(p *rocev2.Packet) bool { return !isResponse(p) }, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, learned := newMap(qpmap.Config{}), map[qpmap.Key]bool{}
			for _, s := range captured(t, c.capture, c.withCM) {
				if c.change(&s.packet) {
					s.packet.IP[len(s.packet.IP)-1] ^= 1
				}
				if s.packet.BTH.Present.Has(bth.HasDETH) && !isCM(&s.packet) {
					continue // datagrams name their source themselves
				}
				if m.Observe(&s.packet, 7, start.Add(s.at)) > 0 {
					for k := range m.Learned() {
						learned[k] = true
					}
				}
			}
			require.Len(t, learned, c.pairs)
		})
	}
}
