package bth

import (
	"encoding/binary"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

const atomicAckETHSize = 8

// errTruncatedAtomicAckETH is the error of [AtomicAckETH.Decode].
var errTruncatedAtomicAckETH = wireerr.New("bth", "AtomicAckETH", 8, "8 octets needed", wireerr.Truncated)

// AtomicAckETH is the Atomic ACK Extended Transport Header, IBTA section
// 9.3.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                           Original                            |
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type AtomicAckETH struct {
	Original uint64 // what was in the memory of the responder before
}

// Decode reads the header at the start of b and returns what follows it, which
// aliases b. It fails only
// where octets are missing, rocecn.ErrTruncated; h is then unchanged.
func (h *AtomicAckETH) Decode(b []byte) (rest []byte, err error) {
	if len(b) < atomicAckETHSize {
		return nil, errTruncatedAtomicAckETH
	}
	h.set((*[atomicAckETHSize]byte)(b))
	return b[atomicAckETHSize:], nil
}

func (h *AtomicAckETH) set(b *[atomicAckETHSize]byte) {
	h.Original = binary.BigEndian.Uint64(b[:])
}

// AppendBinary appends the 8 octets of the header to b; the error is always
// nil.
func (h AtomicAckETH) AppendBinary(b []byte) ([]byte, error) {
	b, more := grow(b, atomicAckETHSize)
	h.put((*[atomicAckETHSize]byte)(more))
	return b, nil
}

func (h AtomicAckETH) put(b *[atomicAckETHSize]byte) {
	binary.BigEndian.PutUint64(b[:], h.Original)
}

// String returns the field.
func (h AtomicAckETH) String() string {
	return fmt.Sprintf("Original 0x%016x", h.Original)
}
