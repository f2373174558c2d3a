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

// Decapsulate appends the innermost IPv4 or IPv6 packet of a frame to b, as the
// node at the end of all its tunnels forwards it. The ECN field is computed
// from those of all IP headers (RFC 6040 section 4.2,
// [rocev2.Frame.DecapsulateECN]), and the IPv4 header checksum is updated. All
// other octets are unchanged, including the hop limit and the ICRC, which does
// not cover the ECN field. Octets after the packet are omitted.
// [DecapsulateFrame] keeps the inner Ethernet header.
//
// Decapsulate removes all tunnels of [rocev2.Tunnels], IP in IP, and MPLS
// labels directly after the link-layer header, also nested. The ECN fields of
// the headers of a mirror have no effect.
//
// The error is one of these; b is then returned unchanged:
//   - [ErrCongested]: the packet must be dropped
//   - matches rocecn.ErrOther: the frame has no tunnel
//   - matches rocecn.ErrMalformed: the innermost tunnel does not carry an IP
//     packet
//   - matches rocecn.ErrTruncated: octets of the packet are missing
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

// DecapsulateFrame is like [Decapsulate], but appends the innermost Ethernet
// frame: its Ethernet header with the VLAN tags, then the packet. It omits MPLS
// labels between the two and sets the EtherType to that of the packet. If the
// packet is not in an Ethernet frame, the error matches rocecn.ErrOther.
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
