package rocev2

import "github.com/rocecn/rocecn/internal/wireerr"

// ErrNotRoCEv2 is the root of all errors that mean other traffic. Errors that do not match it mean a malformed RoCEv2
// packet.
//
// A packet is RoCEv2 if a walk through Ethernet, IPv4, IPv6 and the next headers 0, 43, 60, 4 and 41, with at most four
// IP headers inside the outermost one, finds a complete UDP header with a wanted destination port (D12). Otherwise it
// is other traffic. Errors after such a UDP header are errors of a RoCEv2 packet.
var ErrNotRoCEv2 = wireerr.New("rocev2", "packet", "not RoCEv2", wireerr.Other)

// Errors for other traffic; each matches ErrNotRoCEv2. ErrFragment means an IP fragment, and ErrPort another UDP
// destination port than the wanted ones.
var (
	errVersion = wireerr.New("rocev2", "IP version",
		"not the one that the previous header announces", ErrNotRoCEv2, wireerr.Malformed)
	errIPv4Header = wireerr.New("rocev2", "IPv4 header",
		"truncated: shorter than 20 octets, or than its IHL", ErrNotRoCEv2, wireerr.Truncated)
	errIHL   = wireerr.New("rocev2", "IPv4 IHL", "below 5", ErrNotRoCEv2, wireerr.Malformed)
	errTotal = wireerr.New("rocev2", "IPv4 Total Length",
		"shorter than the header", ErrNotRoCEv2, wireerr.Malformed)
	errIPv6Header = wireerr.New("rocev2", "IPv6 header",
		"truncated: shorter than 40 octets", ErrNotRoCEv2, wireerr.Truncated)
	errExtension = wireerr.New("rocev2", "IPv6 extension header",
		"runs beyond the packet: Hdr Ext Len exceeds its octets", ErrNotRoCEv2, wireerr.Truncated)
	ErrFragment = wireerr.New("rocev2", "IP header", "of a fragment", ErrNotRoCEv2)
	errNotUDP   = wireerr.New("rocev2", "Next Header", "not UDP", ErrNotRoCEv2)
	errDepth    = wireerr.New("rocev2", "IP headers",
		"nested more than 4 deep", ErrNotRoCEv2, wireerr.Malformed)
	errUDPHeader = wireerr.New("rocev2", "UDP header",
		"truncated: shorter than 8 octets", ErrNotRoCEv2, wireerr.Truncated)
	ErrPort = wireerr.New("rocev2", "UDP destination port", "not 4791, and not another wanted port",
		ErrNotRoCEv2)
)

// Errors for malformed packets and datagrams.
var (
	errIPLength    = wireerr.New("rocev2", "IP length", "runs beyond the octets given", wireerr.Truncated)
	errUDPLength   = wireerr.New("rocev2", "UDP length", "below 8", wireerr.Malformed)
	errUDPBeyondIP = wireerr.New("rocev2", "UDP length", "runs beyond the IP packet", wireerr.Malformed)
	errRoom        = wireerr.New("rocev2", "UDP data",
		"shorter than BTH and ICRC, 16 octets", wireerr.Truncated)
	errHeadersRoom = wireerr.New("rocev2", "extended headers",
		"longer than the octets between BTH and ICRC", wireerr.Truncated)
	errHeadersTruncated = wireerr.New("rocev2", "BTH",
		"truncated: shorter than 12 octets and the extended headers of its opcode",
		wireerr.Truncated)
	errPad = wireerr.New("rocev2", "BTH pad count", "larger than the payload", wireerr.Malformed)
)

// Errors of AppendBinary, and of DecodeDatagram after the caller has set fields of the Datagram.
var (
	errFlagsRange = wireerr.New("rocev2", "IPv4 flags",
		"over 3 bits, or More Fragments set", wireerr.Range)
	errIPv4Options = wireerr.New("rocev2", "IPv4 options",
		"not a multiple of 4 octets, or over 40", wireerr.Range)
	errExtRange = wireerr.New("rocev2", "Ext",
		"no chain of Hop-by-Hop, Routing and Destination Options headers that ends in UDP", wireerr.Malformed)
	errDataLength = wireerr.New("rocev2", "Data", "its length is not Length", wireerr.Range)
	errTruncated  = wireerr.New("rocev2", "packet",
		"Truncated: cannot be encoded without all its octets", wireerr.Truncated)
	errPaddingSize = wireerr.New("rocev2", "Padding",
		"its length is not the BTH's pad count, or not 0 in a CNP or with an unknown opcode", wireerr.Range)
)
