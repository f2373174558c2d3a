package rocev2

import "iter"

// An Inner is the innermost IP packet in the octets of another: what stands
// below mirrors, overlays and label stacks, whatever it is. Where a tunnel hides
// a packet from [Packet] and [Datagram], which follow IP in IP alone, they
// decode IP with Options.
//
// [Flow] says what flow the innermost packet belongs to, and refuses one that is
// broken; an Inner leaves that to whoever decodes the packet.
//
// The zero value is ready for any number of Decode calls; they allocate
// nothing.
type Inner struct {
	Tunnels Tunnels // that the packet came in, besides IP in IP

	// The octets from two IP headers on; they alias the input. Without tunnels
	// the two are one.
	Outermost []byte // from the outermost one to the end of the input
	IP        []byte // from the innermost one to the end of what carries that packet

	Cut bool // IP breaks off early: the capture, or a mirroring switch, cut it

	octets []byte
	frame  Frame
}

// Decode sets in from the octets that o describes; in aliases b. An error means
// that they hold no IP packet, or that a tunnel is broken or carries something
// else. On error in is unchanged.
func (in *Inner) Decode(b []byte, o DecodeOptions) error {
	var f Frame
	f.Decode(b, o)
	w := f.inner()
	switch {
	case f.broken != nil:
		return f.broken
	}
	if !w.begins(b) {
		return w.err
	}
	in.Tunnels, in.IP, in.Cut = f.Tunnels(), b[w.ip:w.stop:w.stop], w.cut
	in.Outermost, in.octets, in.frame = b[w.outer:len(b):len(b)], b, f
	return nil
}

// Options says what IP is, for Decode of other types.
func (in *Inner) Options() DecodeOptions { return DecodeOptions{Link: LinkIP, Cut: in.Cut} }

// Extensions is the function of this name for all IPv6 headers on the way to
// the innermost packet, and its own: the outermost first.
func (in *Inner) Extensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		in.frame.Extensions()(yield)
	}
}
