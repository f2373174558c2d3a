package rocev2

import "github.com/rocecn/rocecn/internal/wire"

// fragment returns the UDP destination port in the first fragment of a datagram, if the walk has ended at one.
//
// The Fragment header of IPv6 (RFC 8200 section 4.5), of which the first
// fragment has offset 0:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Next Header  |   Reserved    |      Fragment Offset    |Res|M|
//	|                         Identification                        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (w *walk) fragment(b []byte) (port uint16, ok bool) {
	if w.err != ErrFragment {
		return 0, false
	}
	b = b[:w.stop]
	at, protocol := w.udp, uint8(0)
	if w.version == 6 {
		if len(b)-at < 8 || be.Uint16(b[at+2:])>>3 != 0 {
			return 0, false
		}
		if protocol, at, _, ok = wire.SkipExtensions(b, at+8, b[at]); !ok {
			return 0, false
		}
	} else {
		protocol = b[w.ip+9]
		if be.Uint16(b[w.ip+6:])&wire.FragmentOffset != 0 {
			return 0, false
		}
	}
	if protocol != wire.ProtoUDP || len(b)-at < 4 {
		return 0, false
	}
	return be.Uint16(b[at+2:]), true
}
