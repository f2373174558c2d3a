package wire

import "iter"

// IsExtension reports whether next is the type of an extension header of IPv6 (RFC 8200 section 4) that is skipped:
// 0, 43 or 60 (D12).
func IsExtension(next uint8) bool {
	const types uint64 = 1<<ProtoHopByHop | 1<<ProtoRouting | 1<<ProtoDestinationOptions
	return next < 64 && types>>next&1 == 1
}

// ExtensionLen returns the length of the extension header at b[at:], or 0 if it is truncated. Its second octet
// counts units of 8 octets, without the first 8 octets.
func ExtensionLen(b []byte, at int) int {
	if len(b)-at < ExtensionUnit {
		return 0
	}
	n := (int(b[at+1]) + 1) * ExtensionUnit
	if len(b)-at < n {
		return 0
	}
	return n
}

// SkipExtensions skips the extension headers from b[at:] on, the first of type next. It returns the type of the next
// header and its offset, and whether a Segment Routing header (RFC 8754) was among the skipped ones. If an extension
// header is truncated, these are its own type and offset, and whole is false.
func SkipExtensions(b []byte, at int, next uint8) (protocol uint8, end int, routed, whole bool) {
	for IsExtension(next) {
		n := ExtensionLen(b, at)
		if n == 0 {
			return next, at, routed, false
		}
		routed = routed || next == ProtoRouting && b[at+2] == SegmentRouting
		next, at = b[at], at+n
	}
	return next, at, routed, true
}

// Extensions iterates over the type and the octets of each extension header in b, which contains nothing else. next is
// the type of the first one. It ends at a truncated header.
func Extensions(next uint8, b []byte) iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		for len(b) > 0 {
			n := ExtensionLen(b, 0)
			if n == 0 || !yield(next, b[:n:n]) {
				return
			}
			next, b = b[0], b[n:]
		}
	}
}

// FinalSegment returns the final destination of a packet: Segment List[0] of the last Segment Routing header in b with
// Segments Left above 0, or nil if there is none. The last one counts because each node that inserts such a header
// inserts it before the others. short reports whether one of these headers is too short for an address.
func FinalSegment(next uint8, b []byte) (address []byte, short bool) {
	for n := ExtensionLen(b, 0); n > 0; n = ExtensionLen(b, 0) {
		if next == ProtoRouting && b[2] == SegmentRouting && b[3] > 0 { // Segments Left
			if n < 8+AddressSize {
				short = true
			} else {
				address = b[8:24]
			}
		}
		next, b = b[0], b[n:]
	}
	return address, short
}
