package rocev2

import (
	"iter"

	"github.com/rocecn/rocecn/internal/wire"
)

// Extensions iterates over the extension headers in d.Ext, those of the
// innermost IPv6 header: the type and the octets of each. It yields nothing for
// IPv4.
func (d *Datagram) Extensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		if !d.Src.Is6() {
			return
		}
		wire.Extensions(d.NextHeader, d.Ext)(yield)
	}
}

// OuterExtensions is Extensions for the IPv6 headers that d.Outer begins with, the outermost first: those before a
// tunnel of another kind than IP in IP.
func (d *Datagram) OuterExtensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		var f Frame
		f.Decode(d.Outer, DecodeOptions{Link: LinkIP, Cut: true, Outer: true})
		f.Extensions()(yield)
	}
}
