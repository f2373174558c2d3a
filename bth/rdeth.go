package bth

import (
	"encoding/binary"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

const rdethSize = 4

// What the methods of [RDETH] return: too few octets, a value that does not
// fit, a deviation that Validate reports.
var (
	errTruncatedRDETH = wireerr.New("bth", "RDETH", 4, "4 octets needed", wireerr.Truncated)
	errEEContextRange = wireerr.New("bth", "RDETH: EEContext", 0, "over 0xffffff, more than 24 bits", wireerr.Range)
	errReservedRDETH  = wireerr.New("bth", "RDETH", 0, "reserved bits set", wireerr.Malformed)
)

// RDETH is the Reliable Datagram Extended Transport Header, IBTA section 9.3.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Reserved    |                   EEContext                   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type RDETH struct {
	Reserved  uint8
	EEContext uint32 // end-to-end context of the receiver, 24 bits
}

// Decode reads the header at the start of b and returns what follows it, which
// aliases b. It fails only
// where octets are missing, rocecn.ErrTruncated; h is then unchanged.
func (h *RDETH) Decode(b []byte) (rest []byte, err error) {
	if len(b) < rdethSize {
		return nil, errTruncatedRDETH
	}
	h.set((*[rdethSize]byte)(b))
	return b[rdethSize:], nil
}

func (h *RDETH) set(b *[rdethSize]byte) {
	h.Reserved = b[0]
	h.EEContext = binary.BigEndian.Uint32(b[:]) & 0xffffff
}

// AppendBinary appends the 4 octets of the header to b. A context over 24 bits is an
// error, rocecn.ErrRange, and b comes back as it was.
func (h RDETH) AppendBinary(b []byte) ([]byte, error) {
	if err := h.misfit(); err != nil {
		return b, err
	}
	b, more := grow(b, rdethSize)
	h.put((*[rdethSize]byte)(more))
	return b, nil
}

func (h RDETH) misfit() error {
	if h.EEContext > 0xffffff {
		return errEEContextRange
	}
	return nil
}

func (h RDETH) put(b *[rdethSize]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(h.Reserved)<<24|h.EEContext)
}

// Validate returns an error if EEContext does not fit its field or reserved
// bits are set.
func (h RDETH) Validate() error {
	if h.Reserved != 0 {
		return errReservedRDETH
	}
	return h.misfit()
}

// String returns the fields, keys in hexadecimal, and reserved bits if any are
// set.
func (h RDETH) String() string {
	return fmt.Sprintf("EEContext 0x%06x", h.EEContext) + reserved(uint32(h.Reserved))
}
