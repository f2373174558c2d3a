package bth

import (
	"encoding/binary"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// Lengths of the extended headers in octets, in wire order.
const (
	rdethSize        = 4
	dethSize         = 8
	xrcethSize       = 4
	fethSize         = 4
	rethSize         = 16
	atomicETHSize    = 28
	aethSize         = 4
	atomicAckETHSize = 8
	immDtSize        = 4
	iethSize         = 4
)

// Errors of AppendBinary (values out of range) and of the Validate methods.
var (
	errEEContextRange    = wireerr.New("bth", "RDETH: EEContext", "over 0xffffff, more than 24 bits", wireerr.Range)
	errReservedRDETH     = wireerr.New("bth", "RDETH", "reserved bits set", wireerr.Malformed)
	errSrcQPRange        = wireerr.New("bth", "DETH: SrcQP", "over 0xffffff, more than 24 bits", wireerr.Range)
	errReservedDETH      = wireerr.New("bth", "DETH", "reserved bits set", wireerr.Malformed)
	errSRQRange          = wireerr.New("bth", "XRCETH: SRQ", "over 0xffffff, more than 24 bits", wireerr.Range)
	errReservedXRCETH    = wireerr.New("bth", "XRCETH", "reserved bits set", wireerr.Malformed)
	errFETHReservedRange = wireerr.New("bth", "FETH: Reserved", "over 0x3ffffff, more than 26 bits", wireerr.Range)
	errSelectivityRange  = wireerr.New("bth", "FETH: Selectivity", "over 3, more than 2 bits", wireerr.Range)
	errPlacementRange    = wireerr.New("bth", "FETH: Placement", "over 15, more than 4 bits", wireerr.Range)
	errReservedFETH      = wireerr.New("bth", "FETH", "reserved bits set", wireerr.Malformed)
	errSelectivity       = wireerr.New("bth", "FETH: Selectivity", "neither 0 nor 1", wireerr.Malformed)
	errPlacement         = wireerr.New("bth", "FETH: Placement", "none of 1, 2 and 3", wireerr.Malformed)
	errMSNRange          = wireerr.New("bth", "AETH: MSN", "over 0xffffff, more than 24 bits", wireerr.Range)
	errSyndrome          = wireerr.New("bth", "AETH: Syndrome", "reserved value", wireerr.Malformed)
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

func (h *RDETH) readFields(b *[rdethSize]byte) {
	h.Reserved = b[0]
	h.EEContext = binary.BigEndian.Uint32(b[:]) & 0xffffff
}

func (h RDETH) rangeError() error {
	if h.EEContext > 0xffffff {
		return errEEContextRange
	}
	return nil
}

func (h RDETH) writeFields(b *[rdethSize]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(h.Reserved)<<24|h.EEContext)
}

// validate returns an error if EEContext does not fit its field or reserved
// bits are set.
func (h RDETH) validate() error {
	if h.Reserved != 0 {
		return errReservedRDETH
	}
	return h.rangeError()
}

// String returns the fields, keys in hexadecimal, and reserved bits if any are
// set.
func (h RDETH) String() string {
	return fmt.Sprintf("EEContext 0x%06x", h.EEContext) + formatReserved(uint32(h.Reserved))
}

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
	QKey     uint32 // key of the destination queue pair
	Reserved uint8
	SrcQP    uint32 // queue pair of the sender, 24 bits
}

func (h *DETH) readFields(b *[dethSize]byte) {
	h.QKey = binary.BigEndian.Uint32(b[:])
	h.Reserved = b[4]
	h.SrcQP = binary.BigEndian.Uint32(b[4:]) & 0xffffff
}

func (h DETH) rangeError() error {
	if h.SrcQP > 0xffffff {
		return errSrcQPRange
	}
	return nil
}

func (h DETH) writeFields(b *[dethSize]byte) {
	binary.BigEndian.PutUint32(b[:], h.QKey)
	binary.BigEndian.PutUint32(b[4:], uint32(h.Reserved)<<24|h.SrcQP)
}

// validate returns an error if SrcQP does not fit its field or reserved bits
// are set.
func (h DETH) validate() error {
	if h.Reserved != 0 {
		return errReservedDETH
	}
	return h.rangeError()
}

// String returns the fields, and reserved bits if any are set.
func (h DETH) String() string {
	return fmt.Sprintf("QKey 0x%08x SrcQP 0x%06x", h.QKey, h.SrcQP) + formatReserved(uint32(h.Reserved))
}

// XRCETH is the XRC Extended Transport Header, IBTA annex A14.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Reserved    |                      SRQ                      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type XRCETH struct {
	Reserved uint8
	SRQ      uint32 // number of the receiver's shared receive queue, 24 bits
}

func (h *XRCETH) readFields(b *[xrcethSize]byte) {
	h.Reserved = b[0]
	h.SRQ = binary.BigEndian.Uint32(b[:]) & 0xffffff
}

func (h XRCETH) rangeError() error {
	if h.SRQ > 0xffffff {
		return errSRQRange
	}
	return nil
}

func (h XRCETH) writeFields(b *[xrcethSize]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(h.Reserved)<<24|h.SRQ)
}

// validate returns an error if SRQ does not fit its field or reserved bits are
// set.
func (h XRCETH) validate() error {
	if h.Reserved != 0 {
		return errReservedXRCETH
	}
	return h.rangeError()
}

// String returns the fields, and reserved bits if any are set.
func (h XRCETH) String() string {
	return fmt.Sprintf("SRQ 0x%06x", h.SRQ) + formatReserved(uint32(h.Reserved))
}

// Values of Selectivity: the memory that a FLUSH flushes.
const (
	SelectivityRange  = 0 // the range given by the RETH
	SelectivityRegion = 1 // the whole memory region
)

// Bits of Placement: the guarantees of a completed FLUSH.
const (
	PlacementGlobal     = 1 // the data is visible to all processors and devices of the responder
	PlacementPersistent = 2 // the data survives a power failure
)

// FETH is the FLUSH Extended Transport Header, IBTA annex A19.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                     Reserved                      |Sel|  Plt  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type FETH struct {
	Reserved    uint32 // 26 bits
	Selectivity uint8  // [SelectivityRange] or [SelectivityRegion]; 2 bits
	Placement   uint8  // [PlacementGlobal], [PlacementPersistent] or both; 4 bits
}

func (h *FETH) readFields(b *[fethSize]byte) {
	h.Reserved = binary.BigEndian.Uint32(b[:]) >> 6
	h.Selectivity = b[3] >> 4 & 0x03
	h.Placement = b[3] & 0x0f
}

func (h FETH) rangeError() error {
	switch {
	case h.Reserved>>26 != 0:
		return errFETHReservedRange
	case h.Selectivity > 3:
		return errSelectivityRange
	case h.Placement > 15:
		return errPlacementRange
	}
	return nil
}

func (h FETH) writeFields(b *[fethSize]byte) {
	binary.BigEndian.PutUint32(b[:], h.Reserved<<6|uint32(h.Selectivity)<<4|uint32(h.Placement))
}

// validate returns an error if a value does not fit its field, reserved bits
// are set, or Selectivity or Placement is undefined.
func (h FETH) validate() error {
	if err := h.rangeError(); err != nil {
		return err
	}
	switch {
	case h.Reserved != 0:
		return errReservedFETH
	case h.Selectivity > SelectivityRegion:
		return errSelectivity
	case h.Placement == 0 || h.Placement > PlacementGlobal|PlacementPersistent:
		return errPlacement
	}
	return nil
}

// String returns the fields, and reserved bits if any are set.
func (h FETH) String() string {
	return fmt.Sprintf("Selectivity %d Placement %d", h.Selectivity, h.Placement) + formatReserved(h.Reserved)
}

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
	VirtualAddress uint64 // address in the memory of the receiver
	RKey           uint32 // key of that memory
	DMALength      uint32 // length in octets of the whole operation, over all its packets
}

func (h *RETH) readFields(b *[rethSize]byte) {
	h.VirtualAddress = binary.BigEndian.Uint64(b[:])
	h.RKey = binary.BigEndian.Uint32(b[8:])
	h.DMALength = binary.BigEndian.Uint32(b[12:])
}

func (h RETH) writeFields(b *[rethSize]byte) {
	binary.BigEndian.PutUint64(b[:], h.VirtualAddress)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint32(b[12:], h.DMALength)
}

// String returns the fields.
func (h RETH) String() string {
	return fmt.Sprintf("VirtualAddress 0x%016x RKey 0x%08x DMALength %d", h.VirtualAddress, h.RKey, h.DMALength)
}

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
	VirtualAddress uint64 // address in the memory of the receiver
	RKey           uint32 // key of that memory
	SwapAdd        uint64 // value that CmpSwap stores, or that FetchAdd adds
	Compare        uint64 // value that CmpSwap compares the memory with
}

func (h *AtomicETH) readFields(b *[atomicETHSize]byte) {
	h.VirtualAddress = binary.BigEndian.Uint64(b[:])
	h.RKey = binary.BigEndian.Uint32(b[8:])
	h.SwapAdd = binary.BigEndian.Uint64(b[12:])
	h.Compare = binary.BigEndian.Uint64(b[20:])
}

func (h *AtomicETH) writeFields(b *[atomicETHSize]byte) {
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

// AETH is the ACK Extended Transport Header, IBTA section 9.3.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Syndrome    |                      MSN                      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type AETH struct {
	Syndrome Syndrome // ACK, RNR NAK or NAK; any value decodes
	MSN      uint32   // sequence number of the last completed message, 24 bits
}

func (h *AETH) readFields(b *[aethSize]byte) {
	h.Syndrome = Syndrome(b[0])
	h.MSN = binary.BigEndian.Uint32(b[:]) & 0xffffff
}

func (h AETH) rangeError() error {
	if h.MSN > 0xffffff {
		return errMSNRange
	}
	return nil
}

func (h AETH) writeFields(b *[aethSize]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(h.Syndrome)<<24|h.MSN)
}

// validate returns an error if MSN does not fit its field or if the syndrome or
// its NAK code is reserved.
func (h AETH) validate() error {
	if code, nak := h.Syndrome.Code(); h.Syndrome.Type() == SyndromeReserved || nak && code > NAKInvalidRDRequest {
		return errSyndrome
	}
	return h.rangeError()
}

// String returns the fields.
func (h AETH) String() string { return fmt.Sprintf("%v MSN %d", h.Syndrome, h.MSN) }

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
	Original uint64 // value in the responder's memory before the operation
}

func (h *AtomicAckETH) readFields(b *[atomicAckETHSize]byte) {
	h.Original = binary.BigEndian.Uint64(b[:])
}

func (h AtomicAckETH) writeFields(b *[atomicAckETHSize]byte) {
	binary.BigEndian.PutUint64(b[:], h.Original)
}

// String returns the field.
func (h AtomicAckETH) String() string { return fmt.Sprintf("Original 0x%016x", h.Original) }

// ImmDt is the Immediate Data Extended Transport Header, IBTA section 9.3.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                             Data                              |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type ImmDt struct {
	Data uint32 // delivered to the receiver with the completion
}

func (h *ImmDt) readFields(b *[immDtSize]byte) { h.Data = binary.BigEndian.Uint32(b[:]) }

func (h ImmDt) writeFields(b *[immDtSize]byte) { binary.BigEndian.PutUint32(b[:], h.Data) }

// String returns the field.
func (h ImmDt) String() string { return fmt.Sprintf("Data 0x%08x", h.Data) }

// IETH is the Invalidate Extended Transport Header, IBTA section 9.3.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                             RKey                              |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type IETH struct {
	RKey uint32 // key that the receiver must invalidate
}

func (h *IETH) readFields(b *[iethSize]byte) { h.RKey = binary.BigEndian.Uint32(b[:]) }

func (h IETH) writeFields(b *[iethSize]byte) { binary.BigEndian.PutUint32(b[:], h.RKey) }

// String returns the field.
func (h IETH) String() string { return fmt.Sprintf("RKey 0x%08x", h.RKey) }
