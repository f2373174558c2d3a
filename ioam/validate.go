package ioam

import (
	"errors"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// Errors of Validate.
var (
	errReservedOption = wireerr.New("ioam", "option", "Reserved is not 0", wireerr.Malformed)
	errReservedFlag   = wireerr.New("ioam", "trace", "R flag is set", wireerr.Malformed)
	errReservedBit    = wireerr.New("ioam", "trace", "bit 23 of IOAM-Trace-Type is set", wireerr.Malformed)
	errReservedTrace  = wireerr.New("ioam", "trace", "Reserved is not 0", wireerr.Malformed)
)

// Validate returns an error if the reserved octet is not 0 (RFC 9486 section 3).
func (o Option) Validate() error { return wireerr.If(o.Reserved != 0, errReservedOption) }

// Validate returns an error that names every deviation from RFC 9197 section 4.4:
// the first error of AppendBinary, and reserved bits that are not 0. errors.Is
// matches each.
func (t *Trace) Validate() error {
	return errors.Join(
		t.checkFields(),
		wireerr.If(t.ReservedFlag, errReservedFlag),
		wireerr.If(t.Type&BitReserved != 0, errReservedBit),
		wireerr.If(t.Reserved != 0, errReservedTrace),
	)
}
