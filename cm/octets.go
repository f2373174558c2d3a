package cm

import (
	"slices"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// message returns the octets of a message at the start of b, and what follows them.
func message(b []byte, a Attribute) (octets *[MessageSize]byte, rest []byte, err error) {
	if len(b) < MessageSize {
		return nil, nil, errsTruncated[a]
	}
	return (*[MessageSize]byte)(b), b[MessageSize:], nil
}

// errsTruncated are the errors of messages with fewer than 232 octets, by Attribute.
var errsTruncated = newErrsTruncated()

func newErrsTruncated() (errs [len(attributes)]error) {
	for a, name := range attributes {
		errs[a] = wireerr.New("cm", name, MessageSize, "232 octets needed", wireerr.Truncated)
	}
	return errs
}

// grow returns b with 232 octets more, and these octets alone. They hold
// whatever was in that memory.
func grow(b []byte) (whole []byte, more *[MessageSize]byte) {
	end := len(b)
	b = slices.Grow(b, MessageSize)[:end+MessageSize]
	return b, (*[MessageSize]byte)(b[end:])
}

// uint24 returns a 24-bit number and the octet after it.
func uint24(b []byte) (n uint32, low uint8) {
	row := be.Uint32(b)
	return row >> 8, uint8(row)
}

func putUint24(b []byte, n uint32, low uint8) {
	be.PutUint32(b, n<<8|uint32(low))
}

// flag returns 1 for true.
func flag(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}

const over24 = "over 0xffffff, more than 24 bits"

// overBits returns the error of values that do not fit their field.
func overBits(field, reason string) error {
	return wireerr.New("cm", field, 0, reason, wireerr.Range)
}
