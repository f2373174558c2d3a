package bth

import (
	"encoding/binary"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

const rethSize = 16

// errTruncatedRETH is the error of [RETH.Decode].
var errTruncatedRETH = wireerr.New("bth", "RETH", 16, "16 octets needed", wireerr.Truncated)

// RETH is the RDMA Extended Transport Header, IBTA section 9.3.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        VirtualAddress                         |
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                             RKey                              |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                           DMALength                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type RETH struct {
	VirtualAddress uint64 // where in the memory of the receiver
	RKey           uint32 // key that opens that memory
	DMALength      uint32 // octets of the whole operation, all its packets together
}

// Decode reads the header at the start of b and returns what follows it, which
// aliases b. It fails only
// where octets are missing, rocecn.ErrTruncated; h is then unchanged.
func (h *RETH) Decode(b []byte) (rest []byte, err error) {
	if len(b) < rethSize {
		return nil, errTruncatedRETH
	}
	h.set((*[rethSize]byte)(b))
	return b[rethSize:], nil
}

func (h *RETH) set(b *[rethSize]byte) {
	h.VirtualAddress = binary.BigEndian.Uint64(b[:])
	h.RKey = binary.BigEndian.Uint32(b[8:])
	h.DMALength = binary.BigEndian.Uint32(b[12:])
}

// AppendBinary appends the 16 octets of the header to b; the error is always
// nil.
func (h RETH) AppendBinary(b []byte) ([]byte, error) {
	b, more := grow(b, rethSize)
	h.put((*[rethSize]byte)(more))
	return b, nil
}

func (h RETH) put(b *[rethSize]byte) {
	binary.BigEndian.PutUint64(b[:], h.VirtualAddress)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint32(b[12:], h.DMALength)
}

// String returns the fields.
func (h RETH) String() string {
	return fmt.Sprintf("VirtualAddress 0x%016x RKey 0x%08x DMALength %d", h.VirtualAddress, h.RKey, h.DMALength)
}
