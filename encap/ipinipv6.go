package encap

import (
	"net/netip"

	"github.com/rocecn/rocecn/internal/wire"
)

// IPInIPv6 is the tunnel IP in IPv6 (RFC 2473):
//
//	IPv6: flow label, Next Header 4 or 41 | the packet
type IPInIPv6 struct {
	Src netip.Addr // address of this node, IPv6
	Dst netip.Addr // address of the end of the tunnel, IPv6
}

// Append implements [Tunnel].
func (t *IPInIPv6) Append(b, inner []byte, label uint32) ([]byte, error) {
	inner, proto, _, class, err := cutPacket(inner)
	if err != nil {
		return b, err
	}
	if b, err = appendIPv6(b, t.Src, t.Dst, class, label, proto, len(inner)); err != nil {
		return b, err
	}
	return append(b, inner...), nil
}

// Overhead implements [Tunnel].
func (t *IPInIPv6) Overhead() int { return wire.IPv6Size }
