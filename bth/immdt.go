package bth

import (
	"encoding/binary"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

const immDtSize = 4

// errTruncatedImmDt is the error of [ImmDt.Decode].
var errTruncatedImmDt = wireerr.New("bth", "ImmDt", 4, "4 octets needed", wireerr.Truncated)

// ImmDt is the Immediate Data Extended Transport Header, IBTA section 9.3.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                             Data                              |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type ImmDt struct {
	Data uint32 // handed to the receiver along with the completion
}

// Decode reads the header at the start of b and returns what follows it, which
// aliases b. It fails only
// where octets are missing, rocecn.ErrTruncated; h is then unchanged.
func (h *ImmDt) Decode(b []byte) (rest []byte, err error) {
	if len(b) < immDtSize {
		return nil, errTruncatedImmDt
	}
	h.set((*[immDtSize]byte)(b))
	return b[immDtSize:], nil
}

func (h *ImmDt) set(b *[immDtSize]byte) {
	h.Data = binary.BigEndian.Uint32(b[:])
}

// AppendBinary appends the 4 octets of the header to b; the error is always
// nil.
func (h ImmDt) AppendBinary(b []byte) ([]byte, error) {
	b, more := grow(b, immDtSize)
	h.put((*[immDtSize]byte)(more))
	return b, nil
}

func (h ImmDt) put(b *[immDtSize]byte) {
	binary.BigEndian.PutUint32(b[:], h.Data)
}

// String returns the field.
func (h ImmDt) String() string {
	return fmt.Sprintf("Data 0x%08x", h.Data)
}
