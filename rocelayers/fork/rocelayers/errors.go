// Code generated from rocelayers/errors.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import "github.com/rocecn/rocecn/internal/wireerr"

var (
	// The packet with the ICRC has no BTH, or no BTH precedes the layer to decode.
	errNoBTH = wireerr.New("rocelayers", "BTH", "no such layer in the packet", wireerr.Other)

	errRawIP = wireerr.New("rocelayers", "Ethernet", "absent: the octets are an IP packet, want a frame",
		wireerr.Malformed)
	errNoIP         = wireerr.New("rocelayers", "BTH", "no IP layer leads to it: decode with NewPacket or a Stack")
	errUDPLength    = wireerr.New("rocelayers", "UDP", "length field is below the number of octets", wireerr.Malformed)
	errUDPTruncated = wireerr.New("rocelayers", "UDP",
		"truncated, and no UDP layer gives the length that was sent: decode with NewPacket or a Stack",
		wireerr.Truncated)
	errNotIOAM  = wireerr.New("rocelayers", "IOAM", "the IPv6 option type is neither 0x31 nor 0x11", wireerr.Other)
	errCMSize   = wireerr.New("rocelayers", "CM", "not exactly 256 octets", wireerr.Malformed)
	errICRCSize = wireerr.New("rocelayers", "ICRC", "not exactly 4 octets", wireerr.Malformed)

	errCMAttribute = wireerr.New("rocelayers", "CM", "Attribute or Message not one of package cm", wireerr.Other)

	// Errors of serialization.
	errNoCNP = wireerr.New("rocelayers", "BTH", "opcode not 0x81, with a CNP, FastCNP or PPFC layer after it",
		wireerr.Range)
	errNoPPFC = wireerr.New("rocelayers", "BTH", "P not set, with a PPFC layer after it", wireerr.Range)
	errHeader = wireerr.New("rocelayers", "CNP, FastCNP or PPFC",
		"Header neither zero nor that of the BTH layer before it", wireerr.Range)
	errNoOption = wireerr.New("rocelayers", "FastCNP",
		"Option not in a Destination Options layer before UDP: see FastCNP.DestinationOptions", wireerr.Range)
	errCMMessage = wireerr.New("rocelayers", "CM", "Message is not the one that Attribute names", wireerr.Range)
	errOpcode    = wireerr.New("rocelayers", "FlowControl", "Opcode neither pfc.OpcodePFC nor pfc.OpcodePause",
		wireerr.Range)
	errProxyLimit = wireerr.New("rocelayers", "Proxy",
		"its IP packet exceeds 576 octets over IPv4 or 1280 over IPv6: shorten it with TruncateInvoking", wireerr.Range)
	errSerialize = wireerr.New("rocelayers", "BTH", "its ICRC covers IP and UDP: use rocelayers.SerializeLayers",
		wireerr.Range)
	errNoCarrier = wireerr.New("rocelayers", "BTH", "no IP and UDP layers before it, which its ICRC covers",
		wireerr.Range)
	errTruncated = wireerr.New("rocelayers", "BTH",
		"Truncated: cannot be encoded without all its octets", wireerr.Truncated)
	errPaddingSize = wireerr.New("rocelayers", "BTH",
		"Padding must have as many octets as Pad says, and none in CNPs and unknown opcodes", wireerr.Range)
	errICRCOrder = wireerr.New("rocelayers", "ICRC", "the layer belongs after the BTH's payload", wireerr.Range)
	errLengths   = wireerr.New("rocelayers", "IP and UDP",
		"the lengths do not end the packet at the end of the message", wireerr.Range)
)
