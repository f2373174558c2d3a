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

// Is is [errors.Is], and much faster if target is the first root of err and both come from New.
func Is(err, target error) bool {
	e, ok := err.(*rocecn.Error)
	if root, isError := target.(*rocecn.Error); ok && isError && len(e.Roots) > 0 && e.Roots[0] == root {
		return true
	}
	return errors.Is(err, target)
}

// If returns err if the condition holds, otherwise nil: a term of the
// [errors.Join] in which a Validate names every deviation.
func If(condition bool, err error) error {
	if condition {
		return err
	}
	return nil
}
