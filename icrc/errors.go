package icrc

import "github.com/rocecn/rocecn/internal/wireerr"

// errMismatch means that the ICRC of the packet is wrong in every coverage.
var errMismatch = wireerr.New("icrc", "ICRC", "does not match in any coverage", wireerr.ICRC)

// Errors for octets without an ICRC that can be computed.
var (
	errHeader = wireerr.New("icrc", "IP header",
		"truncated: shorter than 40 octets of IPv6, or than 20 octets or the IHL of IPv4", wireerr.Truncated)
	errVersion   = wireerr.New("icrc", "IP version", "neither 4 nor 6", wireerr.Other)
	errIHL       = wireerr.New("icrc", "IPv4 IHL", "below 5", wireerr.Malformed)
	errFragment  = wireerr.New("icrc", "IP header", "of a fragment", wireerr.Other)
	errNotUDP    = wireerr.New("icrc", "Next Header", "not UDP", wireerr.Other)
	errExtension = wireerr.New("icrc", "IPv6 extension header",
		"runs beyond the packet: Hdr Ext Len exceeds its octets", wireerr.Truncated)
	errUDPHeader = wireerr.New("icrc", "UDP header", "truncated: shorter than 8 octets", wireerr.Truncated)
	errRoom      = wireerr.New("icrc", "UDP length", "below 24, the size of UDP header, BTH and ICRC",
		wireerr.Truncated)
	errUDPBeyondIP  = wireerr.New("icrc", "UDP length", "runs beyond the IP packet", wireerr.Malformed)
	errIPLength     = wireerr.New("icrc", "IP length", "runs beyond the octets given", wireerr.Truncated)
	errUDPTruncated = wireerr.New("icrc", "packet", "truncated: shorter than its UDP length",
		wireerr.Truncated)
	errSegmentList = wireerr.New("icrc", "Routing header",
		"type 4 with Segments Left above 0 is shorter than 24 octets, without Segment List[0]", wireerr.Truncated)
	errCoverage = wireerr.New("icrc", "Coverage", "not one of as-sent, without and skipped", wireerr.Range)
)
