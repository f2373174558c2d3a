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
//	|0|1 0|         |  reserved, like all values with the first bit set
//	|0|1 1|  code   |  NAK
//	+-+-+-+-+-+-+-+-+
type Syndrome uint8

// SyndromeType is the type of answer of a [Syndrome].
type SyndromeType uint8

// The types, numbered as bits 1 and 2 of the syndrome.
const (
	SyndromeACK      SyndromeType = iota // acknowledged, with credits
	SyndromeRNRNAK                       // receiver not ready: to be retransmitted after a time
	SyndromeReserved                     // undefined
	SyndromeNAK                          // rejected, with a code
)

var syndromeTypes = [...]string{"ACK", "RNR NAK", "reserved", "NAK"}

// String returns "ACK", "RNR NAK", "NAK" or "reserved".
func (t SyndromeType) String() string { return enumtext.Name(t, syndromeTypes[:], "SyndromeType") }

// NAKCode is the reason in a NAK.
type NAKCode uint8

// The NAK codes, IBTA section 9.7.5. The others are reserved.
const (
	NAKPSNSequence       NAKCode = 0 // a PSN after the expected one: a packet was lost
	NAKInvalidRequest    NAKCode = 1
	NAKRemoteAccess      NAKCode = 2 // the R_Key does not permit this access
	NAKRemoteOperational NAKCode = 3 // the responder cannot complete the request
	NAKInvalidRDRequest  NAKCode = 4
)

var nakNames = [...]string{"PSN sequence", "invalid request", "remote access", "remote operational",
	"invalid RD request"}

// String returns the reason, as in "PSN sequence", or for reserved codes the
// number, as in "NAKCode(31)".
func (c NAKCode) String() string { return enumtext.Name(c, nakNames[:], "NAKCode") }

// Type returns the type of the syndrome: ACK, RNR NAK, NAK or reserved.
func (s Syndrome) Type() SyndromeType {
	if s&0x80 != 0 {
		return SyndromeReserved
	}
	return SyndromeType(s >> 5)
}

// Credits returns the number of further messages that the receiver can take, 0 to
// 32768. ok is false if the syndrome is not an ACK, and for the ACK of a receiver
// without end-to-end flow control (code 31).
func (s Syndrome) Credits() (n int, ok bool) {
	if s.Type() != SyndromeACK || s == 31 {
		return 0, false
	}
	return decodeStep(int(s)), true
}

// Timer returns the time that the sender must wait before it retransmits, 10 µs to
// 655.36 ms (IBTA table 45). It returns 0 if the syndrome is not an RNR NAK.
func (s Syndrome) Timer() time.Duration {
	const unit = 10 * time.Microsecond
	if s.Type() != SyndromeRNRNAK {
		return 0
	}
	if s.lowBits() == 0 { // the longest, not the shortest
		return unit * 65536
	}
	return unit * time.Duration(decodeStep(s.lowBits()))
}

// Code returns the reason of a NAK; ok is false for other syndromes.
func (s Syndrome) Code() (code NAKCode, ok bool) {
	if s.Type() != SyndromeNAK {
		return 0, false
	}
	return NAKCode(s.lowBits()), true
}

func (s Syndrome) lowBits() int { return int(s & 0x1f) }

// decodeStep returns the value of a code in the scale of credits and timers: 0, 1,
// 2, 3, 4, 6, 8, 12, 16, 24 and so on, doubling every two steps.
func decodeStep(code int) int {
	if code < 5 {
		return code
	}
	return (2 + code&1) << (code/2 - 1)
}

// String returns type and value, as in "ACK credits 16", "RNR NAK 640µs", "NAK
// remote access" or "reserved 0x45".
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
		return fmt.Sprintf("NAK %v", NAKCode(s.lowBits()))
	default:
		return fmt.Sprintf("reserved 0x%02x", uint8(s))
	}
}
