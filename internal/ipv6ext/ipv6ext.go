// Package ipv6ext walks over the extension headers of IPv6 (RFC 8200 section 4).
package ipv6ext

import "iter"

// The types of extension headers. Other types end the walk.
const (
	HopByHop           = 0
	Routing            = 43
	Fragment           = 44 // ends the walk, too: what follows may be in another packet
	DestinationOptions = 60
)

// SegmentRouting is the Routing Type of a Segment Routing header (RFC 8754).
const SegmentRouting = 4

// Is says whether the walk steps over headers of this type (D12).
func Is(next uint8) bool {
	const types uint64 = 1<<HopByHop | 1<<Routing | 1<<DestinationOptions
	return next < 64 && types>>next&1 == 1
}

// Len returns the length of the extension header at b[at:], 0 where it is not all there. Its second octet
// counts 8 octets each, without the first 8.
func Len(b []byte, at int) int {
	if len(b)-at < 8 {
		return 0
	}
	n := (int(b[at+1]) + 1) * 8
	if len(b)-at < n {
		return 0
	}
	return n
}

// Skip steps over the extension headers from b[at:] on, the first of type next. It returns the type of
// what follows them, where that stands, and whether a Segment Routing header (RFC 8754) was among them. Where a header
// is not all there, it returns that one, and whole is false.
func Skip(b []byte, at int, next uint8) (protocol uint8, end int, routed, whole bool) {
	for Is(next) {
		n := Len(b, at)
		if n == 0 {
			return next, at, routed, false
		}
		routed = routed || next == Routing && b[at+2] == SegmentRouting
		next, at = b[at], at+n
	}
	return next, at, routed, true
}

// All yields the type and the octets of each header in b, which holds extension headers and nothing else,
// the first of type next. It ends at one that is not all there.
func All(next uint8, b []byte) iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		for len(b) > 0 {
			n := Len(b, 0)
			if n == 0 || !yield(next, b[:n:n]) {
				return
			}
			next, b = b[0], b[n:]
		}
	}
}

// Final returns Segment List[0] of the last Segment Routing header in b that has Segments Left, nil without
// any: the address that the packet is bound for in the end. Each node that inserts such a header puts it in
// front. short says that one of these headers has no room for an address.
func Final(next uint8, b []byte) (address []byte, short bool) {
	for n := Len(b, 0); n > 0; n = Len(b, 0) {
		if next == Routing && b[2] == SegmentRouting && b[3] > 0 { // Segments Left
			if n < 8+16 {
				short = true
			} else {
				address = b[8:24]
			}
		}
		next, b = b[0], b[n:]
	}
	return address, short
}
