package pfc

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// EtherType is the EtherType of MAC control frames (IEEE 802.3 clause 31).
const EtherType = wire.EtherMACControl

// destination is the destination address of MAC control frames.
var destination = [6]byte{0x01, 0x80, 0xC2, 0x00, 0x00, 0x01}

// The opcodes of the MAC control frames that this package decodes.
const (
	OpcodePause = 0x0001 // IEEE 802.3 annex 31A
	OpcodePFC   = 0x0101 // IEEE 802.1Qbb
)

// minFrame is the minimum length of an Ethernet frame in octets, without the frame
// check sequence.
const minFrame = 60

// errOpcode is the error for a MAC control frame of another kind.
var errOpcode = wireerr.New("pfc", "opcode", "neither 0x0001 (PAUSE) nor 0x0101 (PFC)", wireerr.Other)

var (
	errOpcodeTruncated = wireerr.New("pfc", "opcode", "truncated: shorter than 2 octets", wireerr.Truncated)
	errEnabledReserved = wireerr.New("pfc", "class enable vector", "upper 8 bits are not 0", wireerr.Malformed)
	errTimeUnused      = wireerr.New("pfc", "time", "not 0 for a priority that is not enabled", wireerr.Malformed)
)

// Opcode returns the opcode of the MAC control frame b, which begins after the
// EtherType. If b has fewer than 2 octets, the error matches rocecn.ErrTruncated.
func Opcode(b []byte) (uint16, error) {
	if len(b) < 2 {
		return 0, errOpcodeTruncated
	}
	return binary.BigEndian.Uint16(b), nil
}

// appendFrame appends the frame with these octets after the EtherType, padded.
func appendFrame(b []byte, src [6]byte, control []byte) []byte {
	b = append(append(b, destination[:]...), src[:]...)
	b = append(binary.BigEndian.AppendUint16(b, EtherType), control...)
	return append(b, zeros[:minFrame-wire.EthernetSize-len(control)]...)
}

var zeros [minFrame]byte

// Duration returns the duration of a number of quanta on a link, rounded down to
// nanoseconds: above 512 Gbit/s one quantum is 0. It returns 0 if bitsPerSecond is 0.
func Duration(quanta uint16, bitsPerSecond uint64) time.Duration {
	if bitsPerSecond == 0 {
		return 0
	}
	return time.Duration(uint64(quanta) * quantum / bitsPerSecond) // at most 55 bits
}

// Quanta returns the smallest number of quanta that pauses a priority for at least d on a link. ok reports whether one
// frame can express it; if not, quanta is 65535, the longest pause of one frame (335 µs at 100 Gbit/s). quanta is at
// least 1, because 0 resumes. If bitsPerSecond is 0, it returns 65535 and false.
func Quanta(d time.Duration, bitsPerSecond uint64) (quanta uint16, ok bool) {
	if bitsPerSecond == 0 {
		return math.MaxUint16, false
	}
	hi, lo := bits.Mul64(uint64(max(d, 1)), bitsPerSecond)
	lo, carry := bits.Add64(lo, quantum-1, 0)
	hi += carry
	if hi >= quantum {
		return math.MaxUint16, false // more than 64 bits
	}
	n, _ := bits.Div64(hi, lo, quantum)
	return uint16(min(n, math.MaxUint16)), n <= math.MaxUint16
}

// quantum is the duration of one quantum on a link of 1 bit/s, in nanoseconds.
const quantum = 512 * uint64(time.Second)
