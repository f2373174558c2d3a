package icrc

import "github.com/rocecn/rocecn/internal/wireerr"

// ErrMismatch is Verify's word on a packet whose ICRC is right in none of the
// coverages.
var ErrMismatch = wireerr.Old("icrc: ICRC matches in no coverage", wireerr.ICRC)

// What has no ICRC that could be computed.
var (
	ErrHeader      = wireerr.Old("icrc: IP header truncated: 20 octets of IPv4 or as many as IHL says, 40 of IPv6 needed", wireerr.Truncated)
	ErrVersion     = wireerr.Old("icrc: IP version is neither 4 nor 6", wireerr.Malformed)
	ErrIHL         = wireerr.Old("icrc: IPv4 IHL below 5", wireerr.Malformed)
	ErrFragment    = wireerr.Old("icrc: IP fragment", wireerr.Malformed)
	ErrNotUDP      = wireerr.Old("icrc: next header is not UDP", wireerr.Malformed)
	ErrExtension   = wireerr.Old("icrc: IPv6 extension header runs beyond the packet: 8 octets and 8 for each unit of Hdr Ext Len needed", wireerr.Truncated)
	ErrUDPHeader   = wireerr.Old("icrc: UDP header truncated: 8 octets needed", wireerr.Truncated)
	ErrRoom        = wireerr.Old("icrc: UDP length has no room for BTH and ICRC: 24 octets needed", wireerr.Truncated)
	ErrUDPBeyondIP = wireerr.Old("icrc: UDP length runs beyond the IP packet", wireerr.Malformed)
	ErrUDPCut      = wireerr.Old("icrc: packet cut: as many octets as the UDP length says needed", wireerr.Truncated)
	ErrSegmentList = wireerr.Old("icrc: type 4 Routing header with Segments Left has no Segment List[0]: 24 octets needed", wireerr.Truncated)
	ErrCoverage    = wireerr.Old("icrc: coverage is none of as-sent, without, skipped", wireerr.Range)
)
