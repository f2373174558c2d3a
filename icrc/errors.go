package icrc

import "github.com/rocecn/rocecn/internal/wireerr"

// errMismatch means that the ICRC of the packet is wrong in every coverage.
var errMismatch = wireerr.New("icrc", "ICRC", "matches in no coverage", wireerr.ICRC)

// Errors for octets without an ICRC that can be computed.
var (
	errHeader = wireerr.New("icrc", "IP header",
		"truncated: 20 octets of IPv4 or as many as IHL says, 40 of IPv6 needed", wireerr.Truncated)
	errVersion   = wireerr.New("icrc", "IP version", "neither 4 nor 6", wireerr.Other)
	errIHL       = wireerr.New("icrc", "IPv4 IHL", "below 5", wireerr.Malformed)
	errFragment  = wireerr.New("icrc", "IP header", "of a fragment", wireerr.Other)
	errNotUDP    = wireerr.New("icrc", "Next Header", "not UDP", wireerr.Other)
	errExtension = wireerr.New("icrc", "IPv6 extension header",
		"runs beyond the packet: 8 octets and 8 for each unit of Hdr Ext Len needed", wireerr.Truncated)
	errUDPHeader = wireerr.New("icrc", "UDP header", "truncated: 8 octets needed", wireerr.Truncated)
	errRoom      = wireerr.New("icrc", "UDP length", "no room for BTH and ICRC: 24 octets needed",
		wireerr.Truncated)
	errUDPBeyondIP = wireerr.New("icrc", "UDP length", "runs beyond the IP packet", wireerr.Malformed)
	errIPLength    = wireerr.New("icrc", "IP length", "runs beyond the octets given", wireerr.Truncated)
	errUDPCut      = wireerr.New("icrc", "packet", "cut: as many octets as the UDP length says needed",
		wireerr.Truncated)
	errSegmentList = wireerr.New("icrc", "Routing header",
		"type 4 with Segments Left has no Segment List[0]: 24 octets needed", wireerr.Truncated)
	errCoverage = wireerr.New("icrc", "Coverage", "not as-sent, without or skipped", wireerr.Range)
)
