package encap

import (
	"net/netip"

	"github.com/rocecn/rocecn/internal/wire"
)

// SRv6 is the encapsulation of Segment Routing over IPv6 (RFC 8986 section 5):
// H.Encaps, or H.Encaps.Red if Reduced is set; H.Encaps.L2 or H.Encaps.L2.Red if
// Ethernet is set.
//
//	IPv6: flow label, destination the first segment | Segment Routing header | the packet, or its frame
//
// The Segment Routing header (RFC 8754 section 2):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Next Header  |  Hdr Ext Len  |Routing Type 4 | Segments Left |
//	|  Last Entry   |   Flags = 0   |            Tag = 0            |
//	~        Segment List[0]: the last segment, 128 bits            ~
//	~        …                                                      ~
//	~        Segment List[Last Entry]: the first segment            ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// With Reduced the list omits the first segment, because it is the destination in
// the IPv6 header. If the list is then empty, there is no Segment Routing header.
type SRv6 struct {
	Src      netip.Addr   // address of this node, IPv6
	Segments []netip.Addr // segments in the order of travel, 1 to 127
	Reduced  bool         // omits the first segment from the Segment Routing header
	// Ethernet is the header of the inner Ethernet frame: MAC addresses, VLAN tags
	// and an EtherType, which Append replaces with that of the packet. It is for the
	// behaviour End.DX2. If it is empty, the packet follows without a frame, for the
	// behaviours End.DT4, End.DT6, End.DX4 and End.DX6.
	Ethernet []byte
}

// Append implements [Tunnel].
func (t *SRv6) Append(b, inner []byte, label uint32) ([]byte, error) {
	inner, proto, ether, class, err := cutPacket(inner)
	if err != nil {
		return b, err
	}
	if len(t.Ethernet) > 0 {
		if err := checkEthernet(t.Ethernet); err != nil {
			return b, err
		}
		proto = wire.ProtoEthernet
	}
	if len(t.Segments) < 1 || len(t.Segments) > 127 { // Hdr Ext Len has 8 bits
		return b, errSegments
	}
	for _, s := range t.Segments[1:] { // appendIPv6 checks the first
		if !usable(s) {
			return b, errAddress
		}
	}
	next, listed := proto, t.listed()
	if len(listed) > 0 {
		next = wire.ProtoRouting
	}
	out, err := appendIPv6(b, t.Src, t.Segments[0], class, label, next, t.Overhead()-wire.IPv6Size+len(inner))
	if err != nil {
		return b, err
	}
	if n := len(listed); n > 0 {
		out = append(out, proto, byte(2*n), 4, byte(len(t.Segments)-1), byte(n-1), 0, 0, 0)
		for i := range listed {
			out = appendAddr(out, listed[n-1-i])
		}
	}
	if len(t.Ethernet) > 0 {
		return appendFrame(out, t.Ethernet, ether, inner), nil
	}
	return append(out, inner...), nil
}

// Overhead implements [Tunnel].
func (t *SRv6) Overhead() int {
	n := wire.IPv6Size + len(t.Ethernet)
	if listed := t.listed(); len(listed) > 0 {
		n += 8 + wire.AddressSize*len(listed)
	}
	return n
}

// listed returns the segments in the Segment List, in the order of
// travel.
func (t *SRv6) listed() []netip.Addr {
	if t.Reduced && len(t.Segments) > 0 {
		return t.Segments[1:]
	}
	return t.Segments
}
