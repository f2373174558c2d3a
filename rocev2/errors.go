package rocev2

import "github.com/rocecn/rocecn/internal/wireerr"

// ErrNotRoCEv2 is the root of the errors that tell other traffic from
// RoCEv2 packets that are broken.
//
// D12: what does not lead, through Ethernet, IPv4, IPv6 and the next headers
// 0, 43, 60, 4 and 41, with at most four IP headers inside the first, to a
// whole UDP header with a wanted destination port is not RoCEv2; what is wrong
// from there on is an error of a RoCEv2 packet.
var ErrNotRoCEv2 = wireerr.Old("rocev2: not RoCEv2")

// Other traffic; ErrNotRoCEv2 matches all of these.
var (
	ErrFrame      = wireerr.Old("rocev2: Ethernet header truncated: 14 octets and 4 a VLAN tag needed", ErrNotRoCEv2, wireerr.Truncated)
	ErrNotIP      = wireerr.Old("rocev2: EtherType is neither IPv4 nor IPv6", ErrNotRoCEv2)
	ErrVersion    = wireerr.Old("rocev2: IP version is not the one that the header before it announces", ErrNotRoCEv2, wireerr.Malformed)
	ErrIPv4Header = wireerr.Old("rocev2: IPv4 header truncated: 20 octets or as many as IHL says needed", ErrNotRoCEv2, wireerr.Truncated)
	ErrIHL        = wireerr.Old("rocev2: IPv4 IHL below 5", ErrNotRoCEv2, wireerr.Malformed)
	ErrTotal      = wireerr.Old("rocev2: IPv4 Total Length shorter than the header", ErrNotRoCEv2, wireerr.Malformed)
	ErrIPv6Header = wireerr.Old("rocev2: IPv6 header truncated: 40 octets needed", ErrNotRoCEv2, wireerr.Truncated)
	ErrExtension  = wireerr.Old("rocev2: IPv6 extension header runs beyond the packet: 8 octets and 8 for each unit of Hdr Ext Len needed", ErrNotRoCEv2, wireerr.Truncated)
	ErrFragment   = wireerr.Old("rocev2: IP fragment", ErrNotRoCEv2)
	ErrNotUDP     = wireerr.Old("rocev2: next header is not UDP", ErrNotRoCEv2)
	ErrDepth      = wireerr.Old("rocev2: IP headers nested more than 4 deep", ErrNotRoCEv2, wireerr.Malformed)
	ErrUDPHeader  = wireerr.Old("rocev2: UDP header truncated: 8 octets needed", ErrNotRoCEv2, wireerr.Truncated)
	ErrPort       = wireerr.Old("rocev2: UDP destination port is another", ErrNotRoCEv2)
)

// Broken packets.
var (
	ErrIPLength    = wireerr.Old("rocev2: IP length field runs beyond the octets there", wireerr.Truncated)
	ErrUDPLength   = wireerr.Old("rocev2: UDP length below 8", wireerr.Malformed)
	ErrUDPBeyondIP = wireerr.Old("rocev2: UDP length runs beyond the IP packet", wireerr.Malformed)
	ErrRoom        = wireerr.Old("rocev2: UDP data has no room for BTH and ICRC: 12 and 4 octets needed", wireerr.Truncated)
	ErrHeadersRoom = wireerr.Old("rocev2: no room for the extended headers of the opcode between BTH and ICRC: 4 to 40 octets needed", wireerr.Truncated)
	ErrHeadersCut  = wireerr.Old("rocev2: packet cut before the end of BTH and extended headers: 12 octets and those of the opcode needed", wireerr.Truncated)
	ErrPad         = wireerr.Old("rocev2: BTH pad count larger than the payload", wireerr.Malformed)
)

// What cannot be built, or decoded out of a Datagram built by hand.
var (
	ErrAddress        = wireerr.Old("rocev2: source and destination must both be IPv4 or both IPv6 addresses", wireerr.Range)
	ErrFlowLabelRange = wireerr.Old("rocev2: IPv6 flow label over 20 bits", wireerr.Range)
	ErrFlagsRange     = wireerr.Old("rocev2: IPv4 flags over 3 bits, or More Fragments set", wireerr.Range)
	ErrIPv4Options    = wireerr.Old("rocev2: IPv4 options must be a multiple of 4 and at most 40 octets", wireerr.Range)
	ErrExtRange       = wireerr.Old("rocev2: Ext is no chain of Hop-by-Hop, Routing and Destination Options headers that ends in UDP", wireerr.Malformed)
	ErrDataLength     = wireerr.Old("rocev2: Data has not the octets that Length says", wireerr.Range)
	ErrCut            = wireerr.Old("rocev2: packet is Truncated, its octets are not all there", wireerr.Truncated)
	ErrTooLong        = wireerr.Old("rocev2: packet over 65535 octets", wireerr.Range)
	ErrPaddingSize    = wireerr.Old("rocev2: Padding must have as many octets as the BTH's pad count says, none in CNPs and unknown opcodes", wireerr.Range)
)
