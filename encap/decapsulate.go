package encap

import (
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Errors of Decapsulate.
var (
	// ErrCongested means that a packet must be dropped: it experienced congestion in the tunnel, and its own ECN
	// field, Not-ECT, must not be marked (RFC 6040 section 4.2).
	ErrCongested = wireerr.New("encap", "outer ECN", "CE around a packet that is not ECN-capable", wireerr.Other)

	errNotTunnelled = wireerr.New("encap", "frame", "without a tunnel", wireerr.Other)
)

// Decapsulate appends the innermost packet of a frame, of IPv4 or IPv6, as the node at the end of its tunnel forwards
// it: its ECN field is made of the outer and the inner one (RFC 6040 section 4.2, [rocev2.DecapsulateECN]), and over
// IPv4 its header checksum follows. The ICRC does not cover the field. Everything else is unchanged, the hop limit too.
// Tunnels of every kind in [rocev2.Tunnels] and IP in IP count, also in one another; the headers of a mirror do not
// mark the packet. Octets after the packet are left out. To get the inner frame, append its Ethernet header first:
//
//	out = append(out[:0], f.Inner().EthernetHeader()...)
//	out, err = encap.Decapsulate(out, &f)
//
// [ErrCongested] means that the packet is to be dropped, another error of rocecn.ErrOther that the frame has no tunnel,
// and rocecn.ErrTruncated that octets of the packet are missing. On error Decapsulate returns b as it was.
func Decapsulate(b []byte, f *rocev2.Frame) ([]byte, error) {
	if !f.Tunnelled() {
		return b, errNotTunnelled
	}
	packet, _, _, _, err := cutPacket(f.Inner().IP())
	if err != nil {
		return b, err
	}
	ecn, drop := rocev2.DecapsulateECN(f.Outer().ECN(), f.Inner().ECN())
	if drop {
		return b, ErrCongested
	}
	out := append(b, packet...)
	ip := out[len(b):]
	wire.SetTrafficClass(ip, wire.TrafficClass(ip)&^3|uint8(ecn))
	return out, nil
}
