package bth

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// Syndrome is the first octet of the [AETH], IBTA section 9.7.5.
//
//	 0 1 2 3 4 5 6 7
//	+-+-+-+-+-+-+-+-+
//	|0|0 0| credits |  ACK
//	|0|0 1|  timer  |  RNR NAK
//	|0|1 0|         |  reserved, as is everything with the first bit set
//	|0|1 1|  code   |  NAK
//	+-+-+-+-+-+-+-+-+
type Syndrome uint8

// SyndromeType says which of the three answers a [Syndrome] is.
type SyndromeType uint8

// The types, numbered as bits 1 and 2 of the syndrome.
const (
	SyndromeACK      SyndromeType = iota // received, with credits
	SyndromeRNRNAK                       // receiver not ready, try again after a time
	SyndromeReserved                     // means nothing
	SyndromeNAK                          // refused, with a code
)

var syndromeTypes = [...]string{"ACK", "RNR NAK", "reserved", "NAK"}

// String returns "ACK", "RNR NAK", "NAK" or "reserved".
func (t SyndromeType) String() string { return enumtext.Name(t, syndromeTypes[:], "SyndromeType") }

// NAKCode is the reason that a NAK gives.
type NAKCode uint8

// The NAK codes, IBTA section 9.7.5. The others are reserved.
const (
	NAKPSNSequence       NAKCode = 0 // a packet is missing
	NAKInvalidRequest    NAKCode = 1
	NAKRemoteAccess      NAKCode = 2 // the key does not open that memory
	NAKRemoteOperational NAKCode = 3 // the responder cannot go on
	NAKInvalidRDRequest  NAKCode = 4
)

var nakNames = [...]string{"PSN sequence", "invalid request", "remote access", "remote operational",
	"invalid RD request"}

// String returns the reason, such as "PSN sequence", "NAKCode(31)" for a
// reserved code.
func (c NAKCode) String() string { return enumtext.Name(c, nakNames[:], "NAKCode") }

// Type tells an ACK, an RNR NAK and a NAK apart.
func (s Syndrome) Type() SyndromeType {
	if s&0x80 != 0 {
		return SyndromeReserved
	}
	return SyndromeType(s >> 5)
}

// Credits returns how many messages more the receiver has room for, 0 to
// 32768. It is false where there is no such number: in anything but an ACK, and
// in the ACK of a receiver that does not count (code 31).
func (s Syndrome) Credits() (n int, ok bool) {
	if s.Type() != SyndromeACK || s == 31 {
		return 0, false
	}
	return step(int(s)), true
}

// Timer returns how long the sender is to wait before it tries again, 10 µs to
// 655.36 ms (IBTA table 45), and 0 for anything but an RNR NAK.
func (s Syndrome) Timer() time.Duration {
	const unit = 10 * time.Microsecond
	if s.Type() != SyndromeRNRNAK {
		return 0
	}
	if s.low() == 0 { // the longest, not the shortest
		return unit * 65536
	}
	return unit * time.Duration(step(s.low()))
}

// Code returns the reason of a NAK; it is false for anything else.
func (s Syndrome) Code() (code NAKCode, ok bool) {
	if s.Type() != SyndromeNAK {
		return 0, false
	}
	return NAKCode(s.low()), true
}

func (s Syndrome) low() int { return int(s & 0x1f) }

// step returns the value of a code in the scale that credits and timers share:
// 0, 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on, two steps to every doubling.
func step(code int) int {
	if code < 5 {
		return code
	}
	return (2 + code&1) << (code/2 - 1)
}

// String returns what the syndrome says, such as "ACK credits 16", "RNR NAK
// 640µs" or "NAK remote access", and "reserved 0x45" for a reserved one.
func (s Syndrome) String() string {
	switch s.Type() {
	case SyndromeACK:
		if n, ok := s.Credits(); ok {
			return fmt.Sprintf("ACK credits %d", n)
		}
		return "ACK"
	case SyndromeRNRNAK:
		return fmt.Sprintf("RNR NAK %v", s.Timer())
	case SyndromeNAK:
		return fmt.Sprintf("NAK %v", NAKCode(s.low()))
	default:
		return fmt.Sprintf("reserved 0x%02x", uint8(s))
	}
}
