package bth

import (
	"fmt"
	"slices"
)

// grow returns b with n more octets, which hold whatever lay there, and those
// n octets by themselves.
func grow(b []byte, n int) (whole, more []byte) {
	end := len(b)
	b = slices.Grow(b, n)[:end+n]
	return b, b[end:]
}

// bit returns 1 for true, without a branch.
func bit(v bool) uint32 {
	var x uint32
	if v {
		x = 1
	}
	return x
}

// reserved returns how a header shows its reserved bits: not at all when they
// are zero.
func reserved(v uint32) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(" Reserved %#x", v)
}
