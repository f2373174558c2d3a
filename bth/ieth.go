package bth

import (
	"encoding/binary"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

const iethSize = 4

// errTruncatedIETH is the error of [IETH.Decode].
var errTruncatedIETH = wireerr.New("bth", "IETH", 4, "4 octets needed", wireerr.Truncated)

// IETH is the Invalidate Extended Transport Header, IBTA section 9.3.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                             RKey                              |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type IETH struct {
	RKey uint32 // key that the receiver is to invalidate
}

// Decode reads the header at the start of b and returns what follows it, which
// aliases b. It fails only
// where octets are missing, rocecn.ErrTruncated; h is then unchanged.
func (h *IETH) Decode(b []byte) (rest []byte, err error) {
	if len(b) < iethSize {
		return nil, errTruncatedIETH
	}
	h.set((*[iethSize]byte)(b))
	return b[iethSize:], nil
}

func (h *IETH) set(b *[iethSize]byte) {
	h.RKey = binary.BigEndian.Uint32(b[:])
}

// AppendBinary appends the 4 octets of the header to b; the error is always
// nil.
func (h IETH) AppendBinary(b []byte) ([]byte, error) {
	b, more := grow(b, iethSize)
	h.put((*[iethSize]byte)(more))
	return b, nil
}

func (h IETH) put(b *[iethSize]byte) {
	binary.BigEndian.PutUint32(b[:], h.RKey)
}

// String returns the field.
func (h IETH) String() string {
	return fmt.Sprintf("RKey 0x%08x", h.RKey)
}
