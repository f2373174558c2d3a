package encap

import (
	"encoding/binary"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Errors of Decapsulate.
var (
	// ErrCongested means that a packet must be dropped: it experienced congestion in the tunnel, and its own ECN
	// field, Not-ECT, must not be marked (RFC 6040 section 4.2).
	ErrCongested = wireerr.New("encap", "outer ECN", "CE around a packet that is not ECN-capable", wireerr.Other)

	errNoEthernet   = wireerr.New("encap", "packet", "not in an Ethernet frame", wireerr.Other)
	errNotTunnelled = wireerr.New("encap", "frame", "does not carry a tunnel", wireerr.Other)
)

// Decapsulate appends the innermost packet of a frame, of IPv4 or IPv6, as the node at the end of its tunnels forwards
// it: its ECN field is made of those of all IP headers (RFC 6040 section 4.2, [rocev2.Frame.DecapsulateECN]), and the
// header checksum of IPv4 is updated. The ICRC does not cover the field. Everything else is unchanged, the hop limit
// too. Tunnels of every kind in [rocev2.Tunnels], MPLS labels directly after the link-layer header included, and IP in
// IP count, also in one another; the headers of a mirror do not mark the packet. Octets after the packet are left out.
// [DecapsulateFrame] keeps the inner Ethernet header.
//
// The error is [ErrCongested] if the packet is to be dropped. It matches rocecn.ErrOther as well if the frame has no
// tunnel, rocecn.ErrMalformed if the innermost tunnel does not carry an IP packet, and rocecn.ErrTruncated if octets of
// the packet are missing. On error, Decapsulate returns b as it was.
func Decapsulate(b []byte, f *rocev2.Frame) ([]byte, error) {
	if !f.Tunnelled() && f.Tunnels().Len() == 0 {
		return b, errNotTunnelled
	}
	packet, _, _, _, err := cutPacket(f.Inner().IP())
	if err != nil {
		return b, err
	}
	ecn, drop := f.DecapsulateECN()
	if drop {
		return b, ErrCongested
	}
	out := append(b, packet...)
	ip := out[len(b):]
	wire.SetTrafficClass(ip, wire.TrafficClass(ip)&^3|uint8(ecn))
	return out, nil
}

// DecapsulateFrame is Decapsulate for the innermost Ethernet frame: it appends the frame's header, with its VLAN tags,
// before the packet. MPLS labels between the two are left out, and the EtherType is that of the packet. A packet that
// is not in an Ethernet frame gives an error of rocecn.ErrOther.
func DecapsulateFrame(b []byte, f *rocev2.Frame) ([]byte, error) {
	ethernet := f.Inner().EthernetHeader()
	if ethernet == nil {
		return b, errNoEthernet
	}
	out, err := Decapsulate(append(b, ethernet...), f)
	if err != nil {
		return b, err
	}
	at := len(b) + len(ethernet)
	binary.BigEndian.PutUint16(out[at-2:], wire.VersionEther(wire.VersionField(out[at:])))
	return out, nil
}
