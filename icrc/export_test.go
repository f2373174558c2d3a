package icrc

import "runtime"

// What the tests of package icrc_test compare errors with.
var (
	ErrCoverage    = errCoverage
	ErrExtension   = errExtension
	ErrFragment    = errFragment
	ErrHeader      = errHeader
	ErrIPLength    = errIPLength
	ErrIHL         = errIHL
	ErrMismatch    = errMismatch
	ErrNotUDP      = errNotUDP
	ErrRoom        = errRoom
	ErrSegmentList = errSegmentList
	ErrUDPBeyondIP = errUDPBeyondIP
	ErrUDPCut      = errUDPCut
	ErrUDPHeader   = errUDPHeader
	ErrVersion     = errVersion
)

// Ways are the names of the ways to compute that this CPU has.
func Ways() []string {
	if runtime.GOARCH == "arm64" {
		return []string{"tables", "CRC32 instructions"}[:best+1]
	}
	return []string{"tables", "folding", "wide folding"}[:best+1]
}

// Force makes every sum be computed in the way of this index, until the
// function that it returns is called.
func Force(i int) (back func()) {
	was := use
	use = way(i)
	return func() { use = was }
}

var best = use

// Update returns the register r after b, whose first octets the header of an
// IPv6 packet, of an IPv4 packet, UDP or nothing masks, in the way in force and
// by the portable one. len(b) is 20 at least, as between the parts of a packet.
func Update(r uint32, b []byte, header int) (got, want uint32) {
	m := []*mask{&maskIPv6, &maskIPv4, &maskUDP, &maskNothing}[header]
	return update(r, b, m), updateTables(r, b, m)
}
