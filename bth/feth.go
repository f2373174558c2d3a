package bth

import (
	"encoding/binary"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

const fethSize = 4

// What the methods of [FETH] return: too few octets, values that do not fit,
// deviations that Validate reports.
var (
	errTruncatedFETH     = wireerr.New("bth", "FETH", 4, "4 octets needed", wireerr.Truncated)
	errFETHReservedRange = wireerr.New("bth", "FETH: Reserved", 0, "over 0x3ffffff, more than 26 bits", wireerr.Range)
	errSelectivityRange  = wireerr.New("bth", "FETH: Selectivity", 0, "over 3, more than 2 bits", wireerr.Range)
	errPlacementRange    = wireerr.New("bth", "FETH: Placement", 0, "over 15, more than 4 bits", wireerr.Range)
	errReservedFETH      = wireerr.New("bth", "FETH", 0, "reserved bits set", wireerr.Malformed)
	errSelectivity       = wireerr.New("bth", "FETH: Selectivity", 0, "neither 0 nor 1", wireerr.Malformed)
	errPlacement         = wireerr.New("bth", "FETH: Placement", 0, "neither 1, 2 nor both", wireerr.Malformed)
)

// Values of Selectivity, what memory a FLUSH is about.
const (
	SelectivityRange  = 0 // what the RETH says
	SelectivityRegion = 1 // the whole memory region
)

// Bits of Placement, what a FLUSH makes sure of.
const (
	PlacementGlobal     = 1 // the data can be seen by all
	PlacementPersistent = 2 // the data outlives a power failure
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

// Decode reads the header at the start of b and returns what follows it, which
// aliases b. It fails only
// where octets are missing, rocecn.ErrTruncated; h is then unchanged.
func (h *FETH) Decode(b []byte) (rest []byte, err error) {
	if len(b) < fethSize {
		return nil, errTruncatedFETH
	}
	h.set((*[fethSize]byte)(b))
	return b[fethSize:], nil
}

func (h *FETH) set(b *[fethSize]byte) {
	h.Reserved = binary.BigEndian.Uint32(b[:]) >> 6
	h.Selectivity = b[3] >> 4 & 0x03
	h.Placement = b[3] & 0x0f
}

// AppendBinary appends the 4 octets of the header to b. A value that does not
// fit its field is an error, and b comes back as it was.
func (h FETH) AppendBinary(b []byte) ([]byte, error) {
	if err := h.misfit(); err != nil {
		return b, err
	}
	b, more := grow(b, fethSize)
	h.put((*[fethSize]byte)(more))
	return b, nil
}

func (h FETH) misfit() error {
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

func (h FETH) put(b *[fethSize]byte) {
	binary.BigEndian.PutUint32(b[:], h.Reserved<<6|uint32(h.Selectivity)<<4|uint32(h.Placement))
}

// Validate returns an error if a value does not fit its field, reserved bits
// are set, or selectivity or placement has no meaning.
func (h FETH) Validate() error {
	if err := h.misfit(); err != nil {
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
	return fmt.Sprintf("Selectivity %d Placement %d", h.Selectivity, h.Placement) + reserved(h.Reserved)
}
