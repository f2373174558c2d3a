// Package wireerr makes the errors that the codecs return: each one built
// once, at start-up, so that returning it allocates nothing.
package wireerr

import "errors"

// The roots, which callers match with [errors.Is]. Package rocecn exports them.
var (
	Truncated = errors.New("rocecn: truncated")
	Range     = errors.New("rocecn: value out of range")
	Malformed = errors.New("rocecn: malformed")
	ICRC      = errors.New("rocecn: ICRC does not match")
	Other     = errors.New("rocecn: another kind of packet")
)

// An Error says in which package decoding, encoding or checking failed, at
// which field, and why. Package rocecn exports it.
type Error struct {
	Package string // the package that found it, as in "rocev2"
	Field   string // the header or field, in the specification's words
	Need    int    // how many octets the field needs at least; 0 where octets are not what is missing

	reason string
	roots  []error
}

// New returns an error with the text "pkg: field: reason" that [errors.Is]
// matches with itself and with each of its roots.
func New(pkg, field string, need int, reason string, roots ...error) error {
	return &Error{Package: pkg, Field: field, Need: need, reason: reason, roots: roots}
}

// Error returns package, field and reason.
func (e *Error) Error() string { return e.Package + ": " + e.Field + ": " + e.reason }

// Unwrap returns the roots.
func (e *Error) Unwrap() []error { return e.roots }

// If returns err if the condition holds, otherwise nil: a term of the
// [errors.Join] in which a Validate names every deviation.
func If(condition bool, err error) error {
	if condition {
		return err
	}
	return nil
}
