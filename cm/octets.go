package cm

import (
	"slices"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// grow returns b with the octets of a message more, which hold whatever lay
// there, and those octets by themselves.
func grow(b []byte) (whole []byte, more *[MessageSize]byte) {
	end := len(b)
	b = slices.Grow(b, MessageSize)[:end+MessageSize]
	return b, (*[MessageSize]byte)(b[end:])
}

// A 24-bit number and the octet that shares its 32 bits.
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

// truncated is the error of a message that has fewer than its 232 octets.
func truncated(message string) error {
	return wireerr.New("cm", message, MessageSize, "232 octets needed", wireerr.Truncated)
}

// over24 and overBits are the errors of values that do not fit their field.
func over24(field string) error {
	return wireerr.New("cm", field, 0, "over 0xffffff, more than 24 bits", wireerr.Range)
}

func overBits(field, reason string) error {
	return wireerr.New("cm", field, 0, reason, wireerr.Range)
}
