package cm

import (
	"slices"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// splitMessage returns the octets of the message at the start of b and the octets
// after it.
func splitMessage(b []byte, a Attribute) (octets *[MessageSize]byte, rest []byte, err error) {
	if len(b) < MessageSize {
		return nil, nil, errsTruncated[a]
	}
	return (*[MessageSize]byte)(b), b[MessageSize:], nil
}

// errsTruncated has, for each Attribute, the error for fewer than 232 octets.
var errsTruncated = newErrsTruncated()

func newErrsTruncated() (errs [len(attributes)]error) {
	for a, name := range attributes {
		errs[a] = wireerr.New("cm", name, "truncated: shorter than 232 octets", wireerr.Truncated)
	}
	return errs
}

// growBuffer returns b with 232 more octets, and these octets alone. They are not
// zeroed.
func growBuffer(b []byte) (grown []byte, added *[MessageSize]byte) {
	end := len(b)
	b = slices.Grow(b, MessageSize)[:end+MessageSize]
	return b, (*[MessageSize]byte)(b[end:])
}

// readUint24 returns a 24-bit number and the octet after it.
func readUint24(b []byte) (n uint32, low uint8) {
	row := be.Uint32(b)
	return row >> 8, uint8(row)
}

// writeUint24 writes a 24-bit number and the octet after it.
func writeUint24(b []byte, n uint32, low uint8) { be.PutUint32(b, n<<8|uint32(low)) }

// boolBit returns 1 for true and 0 for false.
func boolBit(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}

const over24 = "over 0xffffff, more than 24 bits"

// newRangeError returns an error for values that do not fit their field.
func newRangeError(field, reason string) error {
	return wireerr.New("cm", field, reason, wireerr.Range)
}
