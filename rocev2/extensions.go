package rocev2

import "iter"

// Extensions iterates over the IPv6 extension headers of the types 0
// (Hop-by-Hop Options), 43 (Routing) and 60 (Destination Options) that stand
// in the octets that o describes, those of outer IP headers first: the type
// and the octets of each, which alias b. It needs no UDP, looks at no port and
// ends silently where the walk of D12 ends, so it also shows what a packet
// carries that is not RoCEv2.
func Extensions(b []byte, o Options) iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		at, version, err := linkEnd(b, &o)
		for depth := 0; err == nil && depth <= maxDepth; depth++ {
			var ip ipHeader
			if ip, err = readIP(b, at, version); err != nil {
				return
			}
			b = b[:min(ip.end, len(b))]
			at += ip.len
			if version == 6 {
				for isExtension(ip.next) {
					n := extensionLen(b, at)
					if n == 0 || !yield(ip.next, b[at:at+n:at+n]) {
						return
					}
					ip.next, at = b[at], at+n
				}
			}
			switch ip.next {
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
		next := d.NextHeader
		for at := 0; at < len(d.Ext); {
			n := extensionLen(d.Ext, at)
			if n == 0 || !yield(next, d.Ext[at:at+n:at+n]) {
				return
			}
			next, at = d.Ext[at], at+n
		}
	}
}
