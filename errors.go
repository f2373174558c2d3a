package rocecn

import "errors"

// Base errors: [errors.Is] matches each error of the codecs with one of them. The
// codecs allocate no errors. Packages export the errors that programs act on;
// [errors.As] with an [*Error] returns the package and field of all. The Validate
// methods join such errors.
var (
	ErrTruncated = errors.New("rocecn: truncated")              // octets are missing
	ErrRange     = errors.New("rocecn: value out of range")     // a value does not fit its field
	ErrMalformed = errors.New("rocecn: malformed")              // the octets contradict each other or the format
	ErrICRC      = errors.New("rocecn: ICRC does not match")    // the ICRC or a UDP checksum is wrong
	ErrOther     = errors.New("rocecn: another kind of packet") // well-formed, but not of the requested kind
)

// Error is an error of decoding, encoding or validation.
type Error struct {
	Package string  // package that returned the error, as in "rocev2"
	Field   string  // header or field, named as in the specification
	Reason  string  // rule that was broken
	Roots   []error // base errors, and other errors that [errors.Is] matches
}

// Error returns package, field and reason, separated by ": ".
func (e *Error) Error() string { return e.Package + ": " + e.Field + ": " + e.Reason }

// Unwrap returns Roots.
func (e *Error) Unwrap() []error { return e.Roots }
