// Package wireerr makes the errors that the codecs return: each one built
// once, at start-up, with a text of its own and one root or more that callers
// match with [errors.Is].
package wireerr

import "errors"

// The roots. Package rocecn exports them.
var (
	Truncated = errors.New("rocecn: truncated")
	Range     = errors.New("rocecn: value out of range")
	Malformed = errors.New("rocecn: malformed")
	ICRC      = errors.New("rocecn: ICRC does not match")
)

type wireError struct {
	text  string
	roots []error
}

func (e *wireError) Error() string   { return e.text }
func (e *wireError) Unwrap() []error { return e.roots }

// New returns an error with this text that [errors.Is] matches with itself
// and with each of its roots.
func New(text string, roots ...error) error {
	return &wireError{text: text, roots: roots}
}

// If returns err if the condition holds, otherwise nil: a term of the
// [errors.Join] in which a Validate names every deviation.
func If(condition bool, err error) error {
	if condition {
		return err
	}
	return nil
}
