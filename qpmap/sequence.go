package qpmap

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/rocev2"
)

// window is how far from the PSN expected next a request still belongs to the
// same life of its flow, either way.
const window = 1 << 16

// A sequence follows the PSNs of the requests of one flow, modulo 2^24.
type sequence struct {
	next  uint32 // expected next
	slack uint32 // how much later that may be: a READ takes a PSN for each response, and their size is not known
	odd   uint32 // expected next after a packet out of the sequence
	known bool   // next means something
	begun bool   // a request has been seen; before, next is what CM announced
	doubt bool   // the last packet was out of the sequence
}

// A step is how a request stands in a sequence.
type step uint8

const (
	ahead   step = iota // in sequence: the one expected, or beyond it
	behind              // in sequence: sent again, or late
	astray              // too far away, or of another transport
	restart             // the second such packet, in sequence with the first: a new life
)

// follow takes a request that uses between least and most PSNs from psn on.
// other says that its transport is not the flow's.
func (s *sequence) follow(psn, least, most uint32, other bool) step {
	end := (psn + least) & psnMask
	d := distance(s.next, psn)
	how := astray
	switch {
	case other:
	case !s.known:
		s.known, how = true, ahead
	case d >= 0 && d <= int32(window+s.slack):
		how = ahead
	case d < 0 && d >= -window:
		how = behind
		if distance(s.next, end) <= 0 { // nothing new in it
			s.doubt = false
			return behind
		}
	}
	if how == astray {
		d = distance(s.odd, psn)
		if !s.doubt || d > window || d < -window {
			s.odd, s.doubt = end, true
			return astray
		}
		how = restart
	}
	s.next, s.slack = end, min(most-least, 1<<22)
	s.begun, s.doubt = true, false
	return how
}

// covers tells whether a request of the last window used psn.
func (s *sequence) covers(psn uint32) bool {
	back := (s.next + s.slack - 1 - psn) & psnMask
	return s.begun && back < window+s.slack
}

const psnMask = 1<<24 - 1

// distance returns how far psn b is beyond a: -2^23 to 2^23-1.
func distance(a, b uint32) int32 { return int32((b-a)<<8) >> 8 }

// psns returns how many PSNs a request takes: a READ one for each response, of
// which the path MTU tells the size; without it the least and the most that
// this can be.
func psns(p *rocev2.Packet, mtu uint16) (least, most uint32) {
	if p.BTH.Opcode.Operation() != bth.OpRDMAReadRequest {
		return 1, 1
	}
	length := p.BTH.RETH.DMALength
	if mtu != 0 {
		n := packets(length, uint32(mtu))
		return n, n
	}
	return packets(length, 4096), packets(length, 256)
}

func packets(length, mtu uint32) uint32 {
	return max(1, length/mtu+min(1, length%mtu))
}

// mtuOf returns the path MTU if the packet tells it, 0 otherwise: a First or a
// Middle packet is as long as the path allows.
func mtuOf(p *rocev2.Packet) uint16 {
	switch p.BTH.Opcode.Operation() {
	case bth.OpSendFirst, bth.OpSendMiddle, bth.OpRDMAWriteFirst, bth.OpRDMAWriteMiddle,
		bth.OpRDMAReadResponseFirst, bth.OpRDMAReadResponseMiddle:
		switch n := p.PayloadLen(); n {
		case 256, 512, 1024, 2048, 4096:
			return uint16(n)
		}
	}
	return 0
}
