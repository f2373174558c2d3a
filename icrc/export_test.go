package icrc

import (
	"runtime"

	"github.com/rocecn/rocecn/internal/crc"
)

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
	was := crc.Use
	crc.Use = crc.Way(i)
	return func() { crc.Use = was }
}

var best = crc.Use
