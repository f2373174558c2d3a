// Package wireerr makes the errors that the codecs return: each one built
// once, at start-up, so that returning it allocates nothing.
package wireerr

import (
	"errors"

	"github.com/rocecn/rocecn"
)

// The roots, short.
var (
	Truncated = rocecn.ErrTruncated
	Range     = rocecn.ErrRange
	Malformed = rocecn.ErrMalformed
	ICRC      = rocecn.ErrICRC
	Other     = rocecn.ErrOther
)

// New returns an error with the text "pkg: field: reason" that [errors.Is]
// matches with itself and with each of its roots.
func New(pkg, field, reason string, roots ...error) error {
	return &rocecn.Error{Package: pkg, Field: field, Reason: reason, Roots: roots}
}

// HasRoot reports whether [errors.Is] matches err with root. It is much faster than errors.Is if root is the first
// root of err and both come from New.
func HasRoot(err, root error) bool {
	e, ok := err.(*rocecn.Error)
	if r, isError := root.(*rocecn.Error); ok && isError && len(e.Roots) > 0 && e.Roots[0] == r {
		return true
	}
	return errors.Is(err, root)
}

// If returns err if the condition holds, otherwise nil: a term of the
// [errors.Join] in which a Validate names every deviation.
func If(condition bool, err error) error {
	if condition {
		return err
	}
	return nil
}
