package rocev2

import (
	"iter"

	"github.com/rocecn/rocecn/internal/wire"
)

// Extensions iterates over the type and the octets of each extension header in d.Ext, that is, of the innermost IPv6
// header. It yields nothing for IPv4.
func (d *Datagram) Extensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		if !d.Src.Is6() {
			return
		}
		wire.Extensions(d.NextHeader, d.Ext)(yield)
	}
}

// OuterExtensions iterates over the extension headers of the IPv6 headers in d.Outer, the outermost first, as
// Extensions does. It ends at a tunnel other than IP in IP.
func (d *Datagram) OuterExtensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		var f Frame
		f.Decode(d.Outer, DecodeOptions{Link: LinkIP, AllowTruncated: true, Outer: true})
		f.Extensions()(yield)
	}
}
