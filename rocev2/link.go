package rocev2

import (
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// DecodeOptions describes the octets given to Decode. The zero value is for a
// complete Ethernet frame.
type DecodeOptions struct {
	// Link is the header that the octets begin with.
	Link LinkType
	// Cut is what the capture says of the octets: they are fewer than were on the wire. Then
	// a packet whose headers are complete is accepted, with its lengths from the UDP length (D13).
	// Without Cut, missing octets are an error.
	//
	// A packet is Truncated if octets are missing that its length fields promise. Only padding may be cut off, and a
	// mirror or an ICMPv6 error truncates the packet that it quotes, without a cut of its own.
	Cut bool
	// Outer: a Frame does not look into tunnels other than IP in IP.
	Outer bool
}

// A LinkType is a kind of link-layer header, with which a captured packet
// begins.
type LinkType uint8

// The link types.
const (
	LinkEthernet LinkType = iota // Ethernet II, with any number of VLAN tags
	LinkIP                       // none: the octets begin with an IPv4 or IPv6 header
	LinkSLL                      // Linux cooked capture, as of `tcpdump -i any`
	LinkSLL2                     // Linux cooked capture, version 2
	LinkNull                     // BSD loopback, in the writer's octet order
	LinkLoop                     // OpenBSD loopback, big-endian
)

var linkTypes = [...]string{"ethernet", "ip", "sll", "sll2", "null", "loop"}

// String returns the link type in lower case.
func (l LinkType) String() string { return enumtext.Name(l, linkTypes[:], "LinkType") }

// LinkTypeOf returns the link type for its number in pcap and pcapng files
// (LINKTYPE_…); ok is false if it is not one of those above.
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
		return ethernetSize
	case LinkSLL:
		return sllSize
	case LinkSLL2:
		return sll2Size
	case LinkNull, LinkLoop:
		return loopSize
	}
	return 0
}

var (
	errFrame = wireerr.New("rocev2", "Ethernet header", 14,
		"truncated: 14 octets needed, and 4 for each VLAN tag", ErrNotRoCEv2, wireerr.Truncated)
	errCooked = wireerr.New("rocev2", "Linux cooked header", 16,
		"truncated: 16 octets needed, 20 in version 2, and 4 for each VLAN tag", ErrNotRoCEv2, wireerr.Truncated)
	errLoopback = wireerr.New("rocev2", "loopback header", 4,
		"truncated: 4 octets of address family needed", ErrNotRoCEv2, wireerr.Truncated)
	errNotIP  = wireerr.New("rocev2", "EtherType", 0, "neither IPv4 nor IPv6", ErrNotRoCEv2)
	errFamily = wireerr.New("rocev2", "loopback header", 0,
		"address family is neither IPv4 nor IPv6", ErrNotRoCEv2)
	errLink = wireerr.New("rocev2", "DecodeOptions.Link", 0,
		"no such link type", ErrNotRoCEv2, wireerr.Range)
)

// linkEnd returns where the link-layer header of b ends, VLAN tags included,
// and the IP version that it announces. With errNotIP it returns the end and
// the last EtherType.
func linkEnd(b []byte, l LinkType) (end int, version uint8, ether uint16, err error) {
	switch l {
	case LinkEthernet:
		return etherEnd(b, 12, ethernetSize, errFrame)
	case LinkIP:
		if len(b) > 0 {
			version = b[0] >> 4
		}
		return 0, version, 0, nil
	case LinkSLL:
		return etherEnd(b, 14, sllSize, errCooked)
	case LinkSLL2:
		return etherEnd(b, 0, sll2Size, errCooked)
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

// etherEnd is linkEnd for a header of size octets whose EtherType is at b[at:].
// A VLAN tag follows its own EtherType: 16 bits of control information, then
// the EtherType of what comes next.
func etherEnd(b []byte, at, size int, short error) (end int, version uint8, ether uint16, err error) {
	for end = size; end <= len(b); at, end = end+2, end+4 {
		switch ether = be.Uint16(b[at:]); ether {
		case etherIPv6:
			return end, 6, ether, nil
		case etherIPv4:
			return end, 4, ether, nil
		case etherVLAN, etherSVID, etherVLAN9100:
		default:
			return end, 0, ether, errNotIP
		}
	}
	return 0, 0, 0, short
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

// AppendReplyLink appends the link-layer header of an answer that is an IP
// packet of this version. If d came in an Ethernet frame, this is its header
// with the addresses swapped, its VLAN tags, and the EtherType of the answer;
// otherwise nothing. d must have been decoded.
func (d *Datagram) AppendReplyLink(b []byte, version uint8) []byte {
	if len(d.Link)%4 != 14%4 { // not Ethernet: all other headers, and tags, are multiples of 4 octets
		return b
	}
	ether := uint16(etherIPv4)
	if version == 6 {
		ether = etherIPv6
	}
	b = append(append(b, d.Link[6:12]...), d.Link[0:6]...)
	b = append(b, d.Link[12:len(d.Link)-2]...)
	return be.AppendUint16(b, ether)
}
