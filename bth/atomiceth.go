package bth

import (
	"encoding/binary"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

const atomicETHSize = 28

// errTruncatedAtomicETH is the error of [AtomicETH.Decode].
var errTruncatedAtomicETH = wireerr.New("bth", "AtomicETH", 28, "28 octets needed", wireerr.Truncated)

// AtomicETH is the Atomic Extended Transport Header, IBTA section 9.3.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        VirtualAddress                         |
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                             RKey                              |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                            SwapAdd                            |
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                            Compare                            |
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type AtomicETH struct {
	VirtualAddress uint64 // where in the memory of the receiver
	RKey           uint32 // key that opens that memory
	SwapAdd        uint64 // what CmpSwap puts there, or what FetchAdd adds
	Compare        uint64 // what must be there for CmpSwap
}

// Decode reads the header at the start of b and returns what follows it, which
// aliases b. It fails only
// where octets are missing, rocecn.ErrTruncated; h is then unchanged.
func (h *AtomicETH) Decode(b []byte) (rest []byte, err error) {
	if len(b) < atomicETHSize {
		return nil, errTruncatedAtomicETH
	}
	h.set((*[atomicETHSize]byte)(b))
	return b[atomicETHSize:], nil
}

func (h *AtomicETH) set(b *[atomicETHSize]byte) {
	h.VirtualAddress = binary.BigEndian.Uint64(b[:])
	h.RKey = binary.BigEndian.Uint32(b[8:])
	h.SwapAdd = binary.BigEndian.Uint64(b[12:])
	h.Compare = binary.BigEndian.Uint64(b[20:])
}

// AppendBinary appends the 28 octets of the header to b; the error is always
// nil.
func (h *AtomicETH) AppendBinary(b []byte) ([]byte, error) {
	b, more := grow(b, atomicETHSize)
	h.put((*[atomicETHSize]byte)(more))
	return b, nil
}

func (h *AtomicETH) put(b *[atomicETHSize]byte) {
	binary.BigEndian.PutUint64(b[:], h.VirtualAddress)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint64(b[12:], h.SwapAdd)
	binary.BigEndian.PutUint64(b[20:], h.Compare)
}

// String returns the fields.
func (h AtomicETH) String() string {
	return fmt.Sprintf("VirtualAddress 0x%016x RKey 0x%08x SwapAdd 0x%016x Compare 0x%016x",
		h.VirtualAddress, h.RKey, h.SwapAdd, h.Compare)
}
