package rocecn

import "github.com/rocecn/rocecn/internal/wireerr"

// The roots of the library's errors. Every error that a codec returns is a
// package variable, built once, that names the field and the octets needed;
// [errors.Is] matches it with itself and with the root that it belongs to.
var (
	ErrTruncated = wireerr.Truncated // octets are missing
	ErrRange     = wireerr.Range     // a value does not fit its field
	ErrMalformed = wireerr.Malformed // the octets contradict each other or the format
	ErrICRC      = wireerr.ICRC      // the ICRC does not match
)
