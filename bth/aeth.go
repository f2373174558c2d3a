package bth

import (
	"encoding/binary"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

const aethSize = 4

// What the methods of [AETH] return: too few octets, a value that does not
// fit, a deviation that Validate reports.
var (
	errTruncatedAETH = wireerr.New("bth", "AETH", 4, "4 octets needed", wireerr.Truncated)
	errMSNRange      = wireerr.New("bth", "AETH: MSN", 0, "over 0xffffff, more than 24 bits", wireerr.Range)
	errSyndrome      = wireerr.New("bth", "AETH: Syndrome", 0, "reserved value", wireerr.Malformed)
)

// AETH is the ACK Extended Transport Header, IBTA section 9.3.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Syndrome    |                      MSN                      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type AETH struct {
	Syndrome Syndrome // ACK, RNR NAK or NAK; any value decodes
	MSN      uint32   // number of the last message completed, 24 bits
}

// Decode reads the header at the start of b and returns what follows it, which
// aliases b. It fails only
// where octets are missing, rocecn.ErrTruncated; h is then unchanged.
func (h *AETH) Decode(b []byte) (rest []byte, err error) {
	if len(b) < aethSize {
		return nil, errTruncatedAETH
	}
	h.set((*[aethSize]byte)(b))
	return b[aethSize:], nil
}

func (h *AETH) set(b *[aethSize]byte) {
	h.Syndrome = Syndrome(b[0])
	h.MSN = binary.BigEndian.Uint32(b[:]) & 0xffffff
}

// AppendBinary appends the 4 octets of the header to b. An MSN over 24 bits is an
// error, rocecn.ErrRange, and b comes back as it was.
func (h AETH) AppendBinary(b []byte) ([]byte, error) {
	if err := h.misfit(); err != nil {
		return b, err
	}
	b, more := grow(b, aethSize)
	h.put((*[aethSize]byte)(more))
	return b, nil
}

func (h AETH) misfit() error {
	if h.MSN > 0xffffff {
		return errMSNRange
	}
	return nil
}

func (h AETH) put(b *[aethSize]byte) {
	binary.BigEndian.PutUint32(b[:], uint32(h.Syndrome)<<24|h.MSN)
}

// Validate returns an error if MSN does not fit its field or the syndrome is
// reserved, NAK codes without a meaning included.
func (h AETH) Validate() error {
	if code, nak := h.Syndrome.Code(); h.Syndrome.Kind() == KindReserved || nak && code > NAKInvalidRDRequest {
		return errSyndrome
	}
	return h.misfit()
}

// String returns the fields.
func (h AETH) String() string {
	return fmt.Sprintf("%v MSN %d", h.Syndrome, h.MSN)
}
