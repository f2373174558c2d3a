package bth

import (
	"encoding/binary"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

const dethSize = 8

// What the methods of [DETH] return: too few octets, a value that does not
// fit, a deviation that Validate reports.
var (
	errTruncatedDETH = wireerr.New("bth", "DETH", 8, "8 octets needed", wireerr.Truncated)
	errSrcQPRange    = wireerr.New("bth", "DETH: SrcQP", 0, "over 0xffffff, more than 24 bits", wireerr.Range)
	errReservedDETH  = wireerr.New("bth", "DETH", 0, "reserved bits set", wireerr.Malformed)
)

// DETH is the Datagram Extended Transport Header, IBTA section 9.3.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                             QKey                              |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Reserved    |                     SrcQP                     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type DETH struct {
	QKey     uint32 // key that lets the packet into the destination queue pair
	Reserved uint8
	SrcQP    uint32 // queue pair of the sender, 24 bits
}

// Decode reads the header at the start of b and returns what follows it, which
// aliases b. It fails only
// where octets are missing, rocecn.ErrTruncated; h is then unchanged.
func (h *DETH) Decode(b []byte) (rest []byte, err error) {
	if len(b) < dethSize {
		return nil, errTruncatedDETH
	}
	h.set((*[dethSize]byte)(b))
	return b[dethSize:], nil
}

func (h *DETH) set(b *[dethSize]byte) {
	h.QKey = binary.BigEndian.Uint32(b[:])
	h.Reserved = b[4]
	h.SrcQP = binary.BigEndian.Uint32(b[4:]) & 0xffffff
}

// AppendBinary appends the 8 octets of the header to b. A queue pair over 24 bits is an
// error, rocecn.ErrRange, and b comes back as it was.
func (h DETH) AppendBinary(b []byte) ([]byte, error) {
	if err := h.misfit(); err != nil {
		return b, err
	}
	b, more := grow(b, dethSize)
	h.put((*[dethSize]byte)(more))
	return b, nil
}

func (h DETH) misfit() error {
	if h.SrcQP > 0xffffff {
		return errSrcQPRange
	}
	return nil
}

func (h DETH) put(b *[dethSize]byte) {
	binary.BigEndian.PutUint32(b[:], h.QKey)
	binary.BigEndian.PutUint32(b[4:], uint32(h.Reserved)<<24|h.SrcQP)
}

// Validate returns an error if SrcQP does not fit its field or reserved bits
// are set.
func (h DETH) Validate() error {
	if h.Reserved != 0 {
		return errReservedDETH
	}
	return h.misfit()
}

// String returns the fields, and reserved bits if any are set.
func (h DETH) String() string {
	return fmt.Sprintf("QKey 0x%08x SrcQP 0x%06x", h.QKey, h.SrcQP) + reserved(uint32(h.Reserved))
}
