package icrc

import (
	"runtime"

	"github.com/rocecn/rocecn/internal/crc"
)

// Errors for the tests of package icrc_test.
var (
	ErrCoverage     = errCoverage
	ErrExtension    = errExtension
	ErrFragment     = errFragment
	ErrHeader       = errHeader
	ErrIPLength     = errIPLength
	ErrIHL          = errIHL
	ErrMismatch     = errMismatch
	ErrNotUDP       = errNotUDP
	ErrRoom         = errRoom
	ErrSegmentList  = errSegmentList
	ErrUDPBeyondIP  = errUDPBeyondIP
	ErrUDPTruncated = errUDPTruncated
	ErrUDPHeader    = errUDPHeader
	ErrVersion      = errVersion
)

// Implementations returns the names of the implementations that this CPU supports.
func Implementations() []string {
	if runtime.GOARCH == "arm64" {
		return []string{"tables", "CRC32 instructions"}[:best+1]
	}
	return []string{"tables", "folding", "folding of 256 bits", "wide folding"}[:best+1]
}

// Force selects the implementation with this index in Implementations for all sums, until back is called.
func Force(i int) (back func()) {
	was := crc.Use
	crc.Use = crc.Implementation(i)
	return func() { crc.Use = was }
}

var best = crc.Use
