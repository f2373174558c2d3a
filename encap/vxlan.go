package encap

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/rocev2"
)

// VXLAN is the tunnel VXLAN (RFC 7348 section 5) over IPv6 or IPv4:
//
//	IPv6 or IPv4 | UDP, destination port 4789 | VXLAN header | Ethernet header | the packet
//
// The VXLAN header:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|0 0 0 0 1 0 0 0|                   Reserved                    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           VXLAN Network Identifier            |   Reserved    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// The UDP source port, 49152 to 65535, is computed from the flow label, so flows
// with different labels mostly have different ports. Over IPv4, which has no flow
// label, the label determines only the port, the UDP checksum is 0 and Don't
// Fragment is set, as RFC 7348 requires. Over IPv6 the UDP checksum is computed.
type VXLAN struct {
	Src netip.Addr // address of this node
	Dst netip.Addr // address of the end of the tunnel, of the family of Src
	VNI uint32     // 24 bits
	// Ethernet is the header of the inner Ethernet frame: MAC addresses, VLAN tags
	// and an EtherType, which Append replaces with that of the packet.
	Ethernet []byte
}

const (
	vxlanSize  = 8
	vxlanFlagI = 0x08 << 24 // the VNI is valid
)

// Append implements [Tunnel].
func (t *VXLAN) Append(b, inner []byte, label uint32) ([]byte, error) {
	inner, _, ether, class, err := cutPacket(inner)
	if err != nil {
		return b, err
	}
	ip, length := wire.IPv6Size, t.Overhead()-wire.IPv6Size+len(inner)
	if t.Src.Is4() {
		ip, length = wire.IPv4Size, t.Overhead()+len(inner)
	}
	if t.Src.Is4() != t.Dst.Is4() || rocev2.CheckAnswerable(t.Src) != nil || rocev2.CheckAnswerable(t.Dst) != nil {
		return b, errAddresses
	}
	if err := checkFields(label, length); err != nil {
		return b, err
	}
	if err := checkEthernet(t.Ethernet); err != nil {
		return b, err
	}
	if t.VNI > 0xFFFFFF {
		return b, errVNI
	}
	// The data is written to its final place, because the checksum covers it.
	data := len(b) + ip + wire.UDPSize
	out := slices.Grow(b, t.Overhead()+len(inner))[:data]
	out = binary.BigEndian.AppendUint32(out, vxlanFlagI)
	out = binary.BigEndian.AppendUint32(out, t.VNI<<8)
	out = appendFrame(out, t.Ethernet, ether, inner)
	d := rocev2.Datagram{
		Src: t.Src, Dst: t.Dst, TrafficClass: class, HopLimit: hopLimit, FlowLabel: label,
		SrcPort: 0xC000 | uint16(label&0x3FFF), DstPort: wire.PortVXLAN, Data: out[data:],
	}
	if t.Src.Is4() {
		d.FlowLabel, d.Flags = 0, 2 // Don't Fragment
	} else {
		d.Checksum = 1
	}
	if out, err = d.AppendBinary(out[:len(b)]); err != nil {
		return b, err
	}
	return out, nil
}

// Overhead implements [Tunnel].
func (t *VXLAN) Overhead() int {
	n := wire.UDPSize + vxlanSize + len(t.Ethernet)
	if t.Src.Is4() {
		return wire.IPv4Size + n
	}
	return wire.IPv6Size + n
}
