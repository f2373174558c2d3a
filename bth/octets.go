package bth

import (
	"fmt"
	"slices"
)

// growBuffer returns b with n more octets, and these octets alone. They are not
// zeroed.
func growBuffer(b []byte, n int) (grown, added []byte) {
	end := len(b)
	b = slices.Grow(b, n)[:end+n]
	return b, b[end:]
}

// boolBit returns 1 for true and 0 for false. It compiles without a branch.
func boolBit(v bool) uint32 {
	var x uint32
	if v {
		x = 1
	}
	return x
}

// formatReserved returns the text for reserved bits, which is empty if they are 0.
func formatReserved(v uint32) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(" Reserved %#x", v)
}
