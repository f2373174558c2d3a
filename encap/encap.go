// Package encap encapsulates IP packets in tunnels and decapsulates them. A
// [Tunnel] appends the outer headers of IP in IPv6 ([IPInIPv6]), SRv6 ([SRv6])
// or VXLAN ([VXLAN]) to a slice, then the packet, which is unchanged:
//
//	var tunnel encap.Tunnel = &encap.IPInIPv6{Src: pe, Dst: egress}
//	outer, err := tunnel.Append(buf[:0], packet, label)
//
// It is for the ingress PE of FCN section 4.1. The outer flow label is the
// label that the PE has assigned to the flow. The outer ECN field is a copy of
// the inner one (RFC 6040 section 4.1, normal mode), and so is the DSCP,
// because it selects the queue for RoCEv2. The outer hop limit is 64.
//
// No packet is fragmented: the path MTU must include the Overhead of the
// tunnel.
//
// [Decapsulate] and [DecapsulateFrame] return the packet or the frame inside
// tunnels of all kinds that package rocev2 decodes, with the ECN field of RFC
// 6040 section 4.2.
package encap

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// A Tunnel encapsulates IP packets.
type Tunnel interface {
	// Append appends to b the outer packet that carries inner, a complete IPv4
	// or IPv6 packet. label is the flow label of the outermost IPv6 header, 20
	// bits. Append omits octets after the end that the length field of inner
	// gives, such as the padding of a short Ethernet frame. The error matches
	// rocecn.ErrTruncated if inner is shorter than its length field,
	// rocecn.ErrMalformed if it is not an IP packet, and rocecn.ErrRange if a
	// value does not fit; b is then returned unchanged. inner must not be in
	// the free capacity of b.
	Append(b, inner []byte, label uint32) ([]byte, error)
	// Overhead returns the number of octets that Append adds to a packet.
	Overhead() int
}

var (
	_ Tunnel = (*IPInIPv6)(nil)
	_ Tunnel = (*SRv6)(nil)
	_ Tunnel = (*VXLAN)(nil)
)

// Errors of Append.
var (
	errInner = wireerr.New("encap", "inner packet",
		"neither an IPv4 header of 20 octets nor an IPv6 header of 40", wireerr.Malformed)
	errInnerLength = wireerr.New("encap", "inner packet",
		"IPv4 total length below the header's, or IPv6 payload length 0 with a next header", wireerr.Malformed)
	errInnerTruncated = wireerr.New("encap", "inner packet",
		"truncated: shorter than its length field", wireerr.Truncated)
	errLabel   = wireerr.New("encap", "flow label", "over 20 bits", wireerr.Range)
	errAddress = wireerr.New("encap", "outer address", "not a unicast IPv6 address that others can reach",
		wireerr.Range)
	errAddresses = wireerr.New("encap", "outer addresses",
		"not two unicast addresses of one family that others can reach", wireerr.Range)
	errLength = wireerr.New("encap", "outer packet", "over 65535 octets, of IPv6 without its header",
		wireerr.Range)
	errSegments = wireerr.New("encap", "segment list", "not 1 to 127 segments", wireerr.Range)
	errVNI      = wireerr.New("encap", "VNI", "over 24 bits", wireerr.Range)
	errEthernet = wireerr.New("encap", "inner Ethernet header",
		"not 14 octets and 4 for each tag, of type 0x8100, 0x88a8 or 0x9100", wireerr.Range)
)

const (
	hopLimit = 64
)

// cutPacket returns an IP packet without the octets after it, and the values that
// the outer headers take from it: its version as a protocol number and as an
// EtherType, and the traffic class.
func cutPacket(inner []byte) (packet []byte, proto uint8, ether uint16, class uint8, err error) {
	version := wire.Version(inner)
	if version == 0 {
		return nil, 0, 0, 0, errInner
	}
	n := wire.Length(inner)
	switch version {
	case wire.IPv4:
		proto = wire.ProtoIPv4
		if header := wire.HeaderLen(inner); header < wire.IPv4Size || n < header {
			return nil, 0, 0, 0, errInnerLength
		}
	case wire.IPv6:
		proto = wire.ProtoIPv6
		if n == wire.IPv6Size && inner[6] != wire.NoNextHeader { // a jumbogram, or the length was not set
			return nil, 0, 0, 0, errInnerLength
		}
	}
	if n > len(inner) {
		return nil, 0, 0, 0, errInnerTruncated
	}
	return inner[:n], proto, wire.VersionEther(version), wire.TrafficClass(inner), nil
}

// check returns an error if an outer IPv6 header cannot have these values, with
// n octets after it.
func check(src, dst netip.Addr, label uint32, n int) error {
	if !usable(src) || !usable(dst) {
		return errAddress
	}
	return checkFields(label, n)
}

// checkFields is check without the addresses. Over IPv4 n counts the header too.
func checkFields(label uint32, n int) error {
	switch {
	case label > 0xFFFFF:
		return errLabel
	case n > 0xFFFF:
		return errLength
	}
	return nil
}

// appendIPv6 appends an outer header and makes room for n octets after it, of the
// type next.
func appendIPv6(b []byte, src, dst netip.Addr, class uint8, label uint32, next uint8, n int) ([]byte, error) {
	if err := check(src, dst, label, n); err != nil {
		return b, err
	}
	at := len(b)
	b = slices.Grow(b, wire.IPv6Size+n)[:at+wire.IPv6Size]
	ipudp.PutIPv6((*[wire.IPv6Size]byte)(b[at:]), ipudp.IPv6Header(class, label, n, next, hopLimit), src, dst)
	return b, nil
}

func appendAddr(b []byte, a netip.Addr) []byte {
	octets := a.As16()
	return append(b, octets[:]...)
}

// usable reports whether an outer IPv6 header can have an address.
func usable(a netip.Addr) bool { return a.Is6() && rocev2.CheckAnswerable(a) == nil }

// checkEthernet returns an error unless h can be the header of an Ethernet frame:
// 14 octets, and 4 for each tag.
func checkEthernet(h []byte) error {
	if len(h) < wire.EthernetSize || len(h)%4 != 2 {
		return errEthernet
	}
	for at := 12; at < len(h)-2; at += 4 {
		if !wire.IsTag(binary.BigEndian.Uint16(h[at:])) {
			return errEthernet
		}
	}
	return nil
}

// appendFrame appends an Ethernet frame: header h with the EtherType ether, and the
// packet.
func appendFrame(b, h []byte, ether uint16, packet []byte) []byte {
	b = append(b, h[:len(h)-2]...)
	b = binary.BigEndian.AppendUint16(b, ether)
	return append(b, packet...)
}
