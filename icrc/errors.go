package icrc

import "github.com/rocecn/rocecn/internal/wireerr"

// ErrMismatch is Verify's word on a packet whose ICRC is right in none of the
// coverages.
var ErrMismatch = wireerr.New("icrc: ICRC matches in no coverage", wireerr.ICRC)

// What has no ICRC that could be computed.
var (
	ErrHeader      = wireerr.New("icrc: IP header truncated: 20 octets of IPv4 or as many as IHL says, 40 of IPv6 needed", wireerr.Truncated)
	ErrVersion     = wireerr.New("icrc: IP version is neither 4 nor 6", wireerr.Malformed)
	ErrIHL         = wireerr.New("icrc: IPv4 IHL below 5", wireerr.Malformed)
	ErrFragment    = wireerr.New("icrc: IP fragment", wireerr.Malformed)
	ErrNotUDP      = wireerr.New("icrc: next header is not UDP", wireerr.Malformed)
	ErrExtension   = wireerr.New("icrc: IPv6 extension header runs beyond the packet: 8 octets and 8 for each unit of Hdr Ext Len needed", wireerr.Truncated)
	ErrUDPHeader   = wireerr.New("icrc: UDP header truncated: 8 octets needed", wireerr.Truncated)
	ErrRoom        = wireerr.New("icrc: UDP length has no room for BTH and ICRC: 24 octets needed", wireerr.Truncated)
	ErrUDPBeyondIP = wireerr.New("icrc: UDP length runs beyond the IP packet", wireerr.Malformed)
	ErrUDPCut      = wireerr.New("icrc: packet cut: as many octets as the UDP length says needed", wireerr.Truncated)
	ErrSegmentList = wireerr.New("icrc: type 4 Routing header with Segments Left has no Segment List[0]: 24 octets needed", wireerr.Truncated)
	ErrCoverage    = wireerr.New("icrc: coverage is none of as-sent, without, skipped", wireerr.Range)
)
