package rocev2

import "iter"

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

// OuterExtensions is Extensions for the IPv6 headers in d.Outer, the outermost first.
func (d *Datagram) OuterExtensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		var f Frame
		f.Decode(d.Outer, DecodeOptions{Link: LinkIP, Cut: true, Outer: true})
		f.Extensions()(yield)
	}
}
