package rocev2

import "math"

// Innermost returns the octets of the packet that [Flow] finds, whatever is
// wrong with it: from the innermost IP header that can be reached up to the
// end of what carries it, or as far as there are octets. It returns nil where
// no IP header begins. o.Cut does not matter.
//
// It is for who must decide about a packet that does not parse.
func Innermost(b []byte, o DecodeOptions) (ip []byte) {
	at, version, ether, err := linkEnd(b, o.Link)
	if err == errNotIP && isMPLS(ether) {
		at, version, err = labels(b, at)
	}
	var p place
	limit := math.MaxInt // the end of the packet around the next one
	for depth := 0; err == nil && depth <= maxDepth; depth++ {
		b = b[:min(limit, len(b))]
		if at >= len(b) || b[at]>>4 != version {
			break
		}
		ip = b[at:len(b):len(b)]
		var next uint8
		if next, err = p.header(b, at, limit, version); err != nil {
			break
		}
		limit = p.end
		at, version, err = p.tunnel(b[:min(p.end, len(b))], next)
		if version == 0 {
			break
		}
		limit = p.end // that of a tunnel on UDP is closer
	}
	return ip
}
