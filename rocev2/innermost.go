package rocev2

// Innermost returns the octets of the packet that [Flow] finds, whatever is
// wrong with it: from the innermost IP header that can be reached up to the
// end of what carries it, or as far as there are octets. It returns nil where
// no IP header begins. o.Cut does not matter.
//
// A packet that ERSPAN mirrors is a copy, and not looked for.
//
// It is for who must decide about a packet that does not parse. Where it
// matters whether a tunnel is broken, and what stood around the packet, an
// [Inner] tells.
func Innermost(b []byte, o DecodeOptions) (ip []byte) {
	o.Cut = true
	r := road{tolerant: true, noMirrors: true}
	r.follow(b, o)
	return r.reached
}
