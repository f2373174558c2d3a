package rocecn

import "github.com/rocecn/rocecn/internal/wireerr"

// The roots of the library's errors. An error of decoding or encoding is built
// once; [errors.Is] matches it with its root. Those that a program acts on are
// exported by their packages as well; of all others [errors.As] with an [*Error]
// gives package, field and octets needed. The Validate methods join such errors.
var (
	ErrTruncated = wireerr.Truncated // octets are missing
	ErrRange     = wireerr.Range     // a value does not fit its field
	ErrMalformed = wireerr.Malformed // the octets contradict each other or the format
	ErrICRC      = wireerr.ICRC      // the ICRC does not match
	ErrOther     = wireerr.Other     // nothing is wrong, but it is another kind of packet
)

// An Error says in which package decoding, encoding or checking failed, at which
// field, and how many octets were needed.
type Error = wireerr.Error
