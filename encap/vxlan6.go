package encap

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/rocev2"
)

// VXLAN6 is VXLAN over IPv6 (RFC 7348 section 5), with a UDP checksum:
//
//	IPv6: flow label | UDP, destination port 4789 | VXLAN header | Ethernet header | the packet
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
// The UDP source port, 49152 to 65535, is made of the flow label: it is one for
// each flow as well.
type VXLAN6 struct {
	Src netip.Addr // this node
	Dst netip.Addr // the node where the tunnel ends
	VNI uint32     // 24 bits
	// Ethernet is the header of the frame that the packet travels in: MAC
	// addresses, tags and an EtherType, which Append replaces by that of the
	// packet.
	Ethernet []byte
}

const (
	portVXLAN  = 4789
	vxlanSize  = 8
	udpSize    = 8
	vxlanFlagI = 0x08 << 24 // the VNI is valid
)

// Append implements [Tunnel].
func (t *VXLAN6) Append(b, inner []byte, label uint32) ([]byte, error) {
	inner, _, ether, class, err := look(inner)
	if err != nil {
		return b, err
	}
	if err := check(t.Src, t.Dst, label, t.Overhead()-ipv6Size+len(inner)); err != nil {
		return b, err
	}
	if err := checkEthernet(t.Ethernet); err != nil {
		return b, err
	}
	if t.VNI > 0xFFFFFF {
		return b, errVNI
	}
	// The data is put where it goes, and stays there: the checksum covers it.
	data := len(b) + ipv6Size + udpSize
	out := slices.Grow(b, t.Overhead()+len(inner))[:data]
	out = binary.BigEndian.AppendUint32(out, vxlanFlagI)
	out = binary.BigEndian.AppendUint32(out, t.VNI<<8)
	out = appendFrame(out, t.Ethernet, ether, inner)
	d := rocev2.Datagram{
		Src: t.Src, Dst: t.Dst, TrafficClass: class, HopLimit: hopLimit, FlowLabel: label,
		SrcPort: 0xC000 | uint16(label&0x3FFF), DstPort: portVXLAN, Checksum: 1, Data: out[data:],
	}
	if out, err = d.AppendBinary(out[:len(b)]); err != nil {
		return b, err
	}
	return out, nil
}

// Overhead is how many octets Append puts around a packet.
func (t *VXLAN6) Overhead() int { return ipv6Size + udpSize + vxlanSize + len(t.Ethernet) }
