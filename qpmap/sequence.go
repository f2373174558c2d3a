package qpmap

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/rocev2"
)

// How far a request may be from the PSN expected next, either way.
const (
	nearby = 128     // without raising a question: reordering, a few packets that the capture lost
	window = 1 << 16 // within the same life of the flow
)

// A sequence follows the PSNs of the requests of one flow, modulo 2^24.
type sequence struct {
	next  uint32 // expected next
	slack uint32 // how much later that may be: a READ takes a PSN for each response, and their size is not known
	odd   uint32 // expected next after a packet that was not close to next
	acked uint32 // the last PSN that a response has covered; at first the one before the first request
	known bool   // next means something
	begun bool   // a request has been seen; before, next is what CM announced
	doubt doubt
	calm  uint8 // requests in sequence since a jump, up to calm
}

// A doubt says why a sequence may be another life of its flow.
type doubt uint8

const (
	sure    doubt = iota
	jumped        // to a PSN that is not close, or has been acknowledged; over when a response confirms the pair
	strayed       // the last packet was out of the window, or of another transport; over with one in sequence
)

// A step is how a request stands in a sequence.
type step uint8

const (
	ahead   step = iota // in sequence: the one expected, or beyond it
	behind              // in sequence: sent again, or late
	astray              // out of the window, or of another transport
	restart             // the second such packet, in sequence with the first: a new life
)

// begin returns the sequence that begins with this PSN.
func begin(psn uint32) sequence {
	return sequence{next: psn, acked: (psn - 1) & psnMask, known: true}
}

// follow takes a request that uses between least and most PSNs from psn on.
// other says that its transport is not the flow's.
func (s *sequence) follow(psn, least, most uint32, other bool) step {
	end := (psn + least) & psnMask
	slack := min(most-least, 1<<22)
	d := distance(s.next, psn)
	switch {
	case !other && !s.known:
		*s = begin(psn)
		s.next, s.slack, s.begun, s.doubt = end, slack, true, jumped
		return ahead
	case !other && 0 <= d && d <= int32(window+s.slack):
		if d <= int32(nearby+s.slack) {
			s.calmDown()
		} else {
			s.doubt, s.calm = jumped, 0
			s.acked = (psn - 1) & psnMask // only what answers this request, or a later one, speaks for it
		}
		s.next, s.slack, s.begun = end, slack, true
		if distance(s.acked, end) > 1<<22 { // no response is seen; keep the difference a difference
			s.acked = (end - 1<<22) & psnMask
		}
		return ahead
	case !other && -window <= d && d < 0:
		again := distance(s.odd, psn)
		switch {
		case distance(s.acked, psn) <= 0: // nobody sends again what has been acknowledged
			s.doubt, s.calm = jumped, 0
		case d >= -nearby, -nearby <= again && again <= nearby: // sent again, and what follows that
			s.calmDown()
		default:
			s.doubt, s.calm = jumped, 0
		}
		s.odd, s.begun = end, true
		if distance(s.next, end) > 0 {
			s.next, s.slack = end, slack
		}
		return behind
	}
	again := distance(s.odd, psn)
	if s.doubt == strayed && -window <= again && again <= window {
		*s = begin(psn)
		s.next, s.slack, s.begun = end, slack, true
		return restart
	}
	s.odd, s.doubt = end, strayed
	return astray
}

// calmDown notes a request in sequence.
func (s *sequence) calmDown() {
	switch s.doubt {
	case strayed:
		s.doubt = sure
	case jumped:
		s.calm = min(s.calm+1, calm)
	}
}

// calm is how many requests in sequence end the doubt that a jump raised, where
// no response can.
const calm = 64

// covers tells whether a response with this PSN answers a request of the
// sequence for the first time.
func (s *sequence) covers(psn uint32) bool {
	return s.begun && distance(s.acked, psn) > 0 && distance(psn, s.next+s.slack) > 0
}

// explains tells whether there is a reason for a response with this PSN that
// answers nothing: a request that the capture has lost, or an answer once more.
func (s *sequence) explains(psn uint32) bool {
	lost, again := distance(s.next, psn), distance(s.acked, psn)
	return s.begun && (0 <= lost && lost <= int32(nearby+s.slack) || -nearby <= again && again <= 0)
}

// answer notes what a response covers: all up to its PSN, but what it refuses.
func (s *sequence) answer(p *rocev2.Packet) {
	psn := p.BTH.PSN
	if p.BTH.Present.Has(bth.HasAETH) && p.BTH.AETH.Syndrome.Kind() != bth.KindACK {
		psn = (psn - 1) & psnMask
	}
	if distance(s.acked, psn) > 0 {
		s.acked = psn
	}
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
