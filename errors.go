package rocecn

import "errors"

// The roots of the library's errors. An error of decoding or encoding is built
// once; [errors.Is] matches it with its root. Those that a program acts on are
// exported by their packages as well; of all others [errors.As] with an [*Error]
// gives package, field and octets needed. The Validate methods join such errors.
var (
	ErrTruncated = errors.New("rocecn: truncated")              // octets are missing
	ErrRange     = errors.New("rocecn: value out of range")     // a value does not fit its field
	ErrMalformed = errors.New("rocecn: malformed")              // the octets contradict each other or the format
	ErrICRC      = errors.New("rocecn: ICRC does not match")    // the ICRC matches in no coverage, or a UDP checksum
	ErrOther     = errors.New("rocecn: another kind of packet") // nothing is wrong, but it is another kind of packet
)

// An Error says in which package decoding, encoding or checking failed, at which
// field, and why.
type Error struct {
	Package string  // the package that found it, as in "rocev2"
	Field   string  // the header or field, in the specification's words
	Reason  string  // what is wrong with it
	Need    int     // how many octets the field needs at least; 0 where the packet says how many, or none are missing
	Roots   []error // what [errors.Is] matches it with besides itself
}

// Error returns package, field and reason.
func (e *Error) Error() string { return e.Package + ": " + e.Field + ": " + e.Reason }

// Unwrap returns the roots.
func (e *Error) Unwrap() []error { return e.Roots }
