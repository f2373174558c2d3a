package bth

import (
	"encoding/binary"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

const xrcethSize = 4

// What the methods of [XRCETH] return: too few octets, a value that does not
// fit, a deviation that Validate reports.
var (
	errTruncatedXRCETH = wireerr.New("bth", "XRCETH", 4, "4 octets needed", wireerr.Truncated)
	errSRQRange        = wireerr.New("bth", "XRCETH: SRQ", 0, "over 0xffffff, more than 24 bits", wireerr.Range)
	errReservedXRCETH  = wireerr.New("bth", "XRCETH", 0, "reserved bits set", wireerr.Malformed)
)

// XRCETH is the XRC Extended Transport Header, IBTA annex A14.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Reserved    |                      SRQ                      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type XRCETH struct {
	Reserved uint8
	SRQ      uint32 // shared receive queue of the receiver, 24 bits
}

// Decode reads the header at the start of b and returns what follows it, which
// aliases b. It fails only
// where octets are missing, rocecn.ErrTruncated; h is then unchanged.
func (h *XRCETH) Decode(b []byte) (rest []byte, err error) {
	if len(b) < xrcethSize {
		return nil, errTruncatedXRCETH
	}
	h.set((*[xrcethSize]byte)(b))
	return b[xrcethSize:], nil
}

func (h *XRCETH) set(b *[xrcethSize]byte) {
	h.Reserved = b[0]
	h.SRQ = binary.BigEndian.Uint32(b[:]) & 0xffffff
}

// AppendBinary appends the 4 octets of the header to b. A queue pair over 24 bits is an
// error, rocecn.ErrRange, and b comes back as it was.
func (h XRCETH) AppendBinary(b []byte) ([]byte, error) {
	if err := h.misfit(); err != nil {
		return b, err
	}
	b, more := grow(b, xrcethSize)
	h.put((*[xrcethSize]byte)(more))
	return b, nil
}

func (h XRCETH) misfit() error {
	if h.SRQ > 0xffffff {
		return errSRQRange
	}
	return nil
}

func (h XRCETH) put(b *[xrcethSize]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(h.Reserved)<<24|h.SRQ)
}

// Validate returns an error if SRQ does not fit its field or reserved bits are
// set.
func (h XRCETH) Validate() error {
	if h.Reserved != 0 {
		return errReservedXRCETH
	}
	return h.misfit()
}

// String returns the fields, and reserved bits if any are set.
func (h XRCETH) String() string {
	return fmt.Sprintf("SRQ 0x%06x", h.SRQ) + reserved(uint32(h.Reserved))
}
