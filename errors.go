package rocecn

import "github.com/rocecn/rocecn/internal/wireerr"

// The roots of the library's errors. An error of decoding or encoding is a
// package variable, built once, that names the field and the octets needed;
// [errors.Is] matches it with itself and with its root. Errors that say "another
// kind of packet" or "nothing to send" have none of these roots. The Validate
// methods join such errors.
var (
	ErrTruncated = wireerr.Truncated // octets are missing
	ErrRange     = wireerr.Range     // a value does not fit its field
	ErrMalformed = wireerr.Malformed // the octets contradict each other or the format
	ErrICRC      = wireerr.ICRC      // the ICRC does not match
)
