package rocev2

import (
	"slices"

	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// DecodeOptions describes the octets given to Decode. The zero value is for a complete Ethernet frame.
type DecodeOptions struct {
	// Link is the type of the link-layer header with which the octets begin.
	Link LinkType
	// AllowTruncated makes Decode accept a packet with missing octets if its headers are complete, and compute its
	// lengths from the UDP length (D13). Set it if the capture kept fewer octets than were on the wire. Without it,
	// missing octets are an error, except after the BTH of a RoCEv2 packet: then a network device has truncated the
	// frame, and incomplete extended headers are absent from BTH.Present.
	//
	// A decoded packet has the field Truncated set if octets are missing that its length fields promise: not if the
	// capture truncated only the padding, and without AllowTruncated if a mirror or an ICMPv6 error quotes the packet.
	AllowTruncated bool
	// Outer makes Decode ignore the contents of mirrors and of tunnels other than IP in IP (option -outer of the
	// command rocecn). By default [Frame], message.Message.Decode and the command decode them. [Packet.Decode] and
	// [Datagram.Decode] never do, because a host is not the destination of the packets inside (D12).
	Outer bool
	// Encapsulations has the ports and the TPID that a network uses besides the standard ones; nil stands for none.
	Encapsulations *Encapsulations
}

// Encapsulations configures encapsulations that the octets of a frame do not identify. It must not change while frames
// that were decoded with it are in use.
type Encapsulations struct {
	VXLANPorts []uint16 // UDP destination ports of VXLAN besides 4789 and 8472
	FOUPorts   []uint16 // UDP destination ports of IP or Ethernet directly in UDP
	CSIGTPID   uint16   // TPID of CSIG tags; 0 stands for 0x9900
}

// csigTPID returns the TPID of CSIG tags.
func (e *Encapsulations) csigTPID() uint16 {
	if e == nil || e.CSIGTPID == 0 {
		return wire.EtherCSIG
	}
	return e.CSIGTPID
}

// isTunnelPort reports whether a UDP destination port is that of a tunnel.
func (e *Encapsulations) isTunnelPort(port uint16) bool {
	switch {
	case port == Port:
		return false
	case wire.IsTunnelPort(port):
		return true
	}
	return e != nil && (slices.Contains(e.VXLANPorts, port) || slices.Contains(e.FOUPorts, port))
}

// A LinkType is the type of the link-layer header with which a captured packet begins.
type LinkType uint8

// The link types.
const (
	LinkEthernet LinkType = iota // Ethernet II, with any number of VLAN tags
	LinkIP                       // none: the octets begin with an IPv4 or IPv6 header
	LinkSLL                      // Linux cooked capture, as written by `tcpdump -i any`
	LinkSLL2                     // Linux cooked capture, version 2
	LinkNull                     // BSD loopback, in the octet order of the capturing host
	LinkLoop                     // OpenBSD loopback, big-endian
)

var linkTypes = [...]string{"ethernet", "ip", "sll", "sll2", "null", "loop"}

// String returns the link type in lower case.
func (l LinkType) String() string { return enumtext.Name(l, linkTypes[:], "LinkType") }

// LinkTypeOf returns the link type with this number in pcap and pcapng files
// (LINKTYPE_…); ok is false if no LinkType has it.
func LinkTypeOf(number uint32) (l LinkType, ok bool) {
	switch number {
	case 0:
		return LinkNull, true
	case 1:
		return LinkEthernet, true
	case 12, 14, 101, 228, 229: // DLT_RAW of two systems, LINKTYPE_RAW, _IPV4, _IPV6
		return LinkIP, true
	case 108:
		return LinkLoop, true
	case 113:
		return LinkSLL, true
	case 276:
		return LinkSLL2, true
	}
	return 0, false
}

// size returns the length of a header without VLAN tags.
func (l LinkType) size() int {
	switch l {
	case LinkEthernet:
		return wire.EthernetSize
	case LinkSLL:
		return sllSize
	case LinkSLL2:
		return sll2Size
	case LinkNull, LinkLoop:
		return loopSize
	}
	return 0
}

// etherType returns the offset of the EtherType in a header without tags, or -1 if it has none.
func (l LinkType) etherType() int {
	switch l {
	case LinkEthernet:
		return 12
	case LinkSLL:
		return 14
	case LinkSLL2:
		return 0
	}
	return -1
}

var (
	errFrame = wireerr.New("rocev2", "Ethernet header",
		"truncated: shorter than 14 octets and 4 for each VLAN tag", ErrNotRoCEv2, wireerr.Truncated)
	errCooked = wireerr.New("rocev2", "Linux cooked header",
		"truncated: shorter than 16 octets, 20 in version 2, and 4 for each VLAN tag", ErrNotRoCEv2, wireerr.Truncated)
	errLoopback = wireerr.New("rocev2", "loopback header",
		"truncated: shorter than 4 octets, the address family", ErrNotRoCEv2, wireerr.Truncated)
	errNotIP  = wireerr.New("rocev2", "EtherType", "neither IPv4 nor IPv6", ErrNotRoCEv2)
	errFamily = wireerr.New("rocev2", "loopback header",
		"address family is neither IPv4 nor IPv6", ErrNotRoCEv2)
	errLink = wireerr.New("rocev2", "DecodeOptions.Link",
		"not one of the link types of this package", ErrNotRoCEv2, wireerr.Range)
)

// Lengths of link-layer headers of other types, without tags.
const (
	sllSize  = 16
	sll2Size = 20
	loopSize = 4
)

// linkEnd returns the end of the link-layer header of b, VLAN tags included, and the IP version that it announces.
// With errNotIP it returns the end and the last EtherType.
func linkEnd(b []byte, l LinkType, csig uint16) (end int, version uint8, ether uint16, err error) {
	if l == LinkEthernet { // most frames
		return etherEnd(b, 12, wire.EthernetSize, csig, errFrame)
	}
	switch l {
	case LinkIP:
		if len(b) > 0 {
			version = wire.VersionField(b)
		}
		return 0, version, 0, nil
	case LinkSLL:
		return etherEnd(b, 14, sllSize, csig, errCooked)
	case LinkSLL2:
		return etherEnd(b, 0, sll2Size, csig, errCooked)
	case LinkNull, LinkLoop:
		if len(b) < loopSize {
			return 0, 0, 0, errLoopback
		}
		version = familyVersion(be.Uint32(b))
		if version == 0 && l == LinkNull {
			version = familyVersion(le.Uint32(b))
		}
		if version == 0 {
			return loopSize, 0, 0, errFamily
		}
		return loopSize, version, 0, nil
	}
	return 0, 0, 0, errLink
}

// etherEnd implements linkEnd for a header of size octets with its EtherType at b[at:]. It returns the error short if
// the header or a VLAN tag is truncated.
func etherEnd(b []byte, at, size int, csig uint16, short error) (end int, version uint8, ether uint16, err error) {
	end, ether, ok := wire.SkipTags(b, at, size, csig)
	switch {
	case !ok:
		return 0, 0, ether, short
	case ether == wire.EtherIPv6:
		return end, wire.IPv6, ether, nil
	case ether == wire.EtherIPv4:
		return end, wire.IPv4, ether, nil
	}
	return end, 0, ether, errNotIP
}

// familyVersion returns the IP version of an address family. The number for
// IPv6 differs between NetBSD and OpenBSD, FreeBSD, macOS, and Linux.
func familyVersion(family uint32) uint8 {
	switch family {
	case 2:
		return 4
	case 24, 28, 30, 10:
		return 6
	}
	return 0
}

// AppendReplyLink appends the link-layer header for an answer to d that is an IP packet of this version, 4 or 6. If d
// was decoded from an Ethernet frame, the header is that of the frame, with its addresses swapped, its VLAN tags, and
// the EtherType of the answer, without CSIG tags and timestamps; otherwise AppendReplyLink appends nothing. d must have
// been decoded.
func (d *Datagram) AppendReplyLink(b []byte, version uint8) []byte {
	link := d.Link
	// All other headers, and tags, are multiples of 4 octets, except some timestamps.
	end, _, ok := wire.SkipTags(link, 12, wire.EthernetSize, wire.EtherCSIG)
	if len(link)%4 != wire.EthernetSize%4 && (!ok || end != len(link)) {
		return b
	}
	b = append(append(b, link[6:12]...), link[0:6]...)
	for at := 12; at+wire.TagSize < len(link); {
		size := wire.TagSize
		switch ether := be.Uint16(link[at:]); {
		case wire.IsTag(ether):
			b = append(b, link[at:at+wire.TagSize]...)
		case ether == wire.EtherTimestamp:
			size = wire.TimestampSize(link[at+2:])
		}
		at += size
	}
	return be.AppendUint16(b, wire.VersionEther(version))
}
