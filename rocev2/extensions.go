package rocev2

import "iter"

// Extensions iterates over the IPv6 extension headers of the types 0
// (Hop-by-Hop Options), 43 (Routing) and 60 (Destination Options) that stand
// in the octets that o describes, those of outer IP headers first: the type
// and the octets of each, which alias b. It needs no UDP, looks at no port and
// ends silently where the walk of D12 ends, so it also shows what a packet
// carries that is not RoCEv2.
func Extensions(b []byte, o DecodeOptions) iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		at, version, _, err := linkEnd(b, o.Link)
		limit := len(b)
		for depth := 0; err == nil && depth <= maxDepth; depth++ {
			var p place
			var next uint8
			next, err = p.header(b, at, limit, version)
			if version == 6 && !yieldChain(yield, p.next, b[p.ext:p.udp]) {
				return
			}
			at, limit = p.udp, p.end
			switch next {
			case protoIPv4:
				version = 4
			case protoIPv6:
				version = 6
			default:
				return
			}
		}
	}
}

// Extensions iterates over the extension headers of the innermost IPv6
// header, those in d.Ext: the type and the octets of each. It yields nothing
// for IPv4.
func (d *Datagram) Extensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		if !d.Src.Is6() {
			return
		}
		yieldChain(yield, d.NextHeader, d.Ext)
	}
}

// yieldChain yields the extension headers in ext, of which the first is of
// type next. It says whether to go on.
func yieldChain(yield func(uint8, []byte) bool, next uint8, ext []byte) bool {
	for len(ext) > 0 {
		n := extensionLen(ext, 0)
		if n == 0 || !yield(next, ext[:n:n]) {
			return false
		}
		next, ext = ext[0], ext[n:]
	}
	return true
}
