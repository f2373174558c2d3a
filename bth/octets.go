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
func bit(v bool) uint8 {
	var x uint8
	if v {
		x = 1
	}
	return x
}

// over24 tells that v does not fit 24 bits.
func over24(v uint32) bool { return v>>24 != 0 }

// reserved returns how a header shows its reserved bits: not at all when they
// are zero.
func reserved(v uint32) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(" Reserved %#x", v)
}
