package ioam

import (
	"errors"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// What a conforming sender leaves at zero, and Validate reports.
var (
	ErrReservedOption = wireerr.Old("ioam: option: Reserved is not 0", wireerr.Malformed)
	ErrReservedFlag   = wireerr.Old("ioam: trace: R flag is set", wireerr.Malformed)
	ErrReservedBit    = wireerr.Old("ioam: trace: bit 23 of IOAM-Trace-Type is set", wireerr.Malformed)
	ErrReservedTrace  = wireerr.Old("ioam: trace: Reserved is not 0", wireerr.Malformed)
)

// Validate returns an error if the reserved octet is not 0 (RFC 9486 section 3).
func (o Option) Validate() error { return wireerr.If(o.Reserved != 0, ErrReservedOption) }

// Validate returns nil for a trace as RFC 9197 section 4.4 has it, otherwise an
// error that names every deviation: what AppendBinary refuses, and reserved bits
// that are not 0. errors.Is finds each.
func (t *Trace) Validate() error {
	return errors.Join(
		t.check(),
		wireerr.If(t.ReservedFlag, ErrReservedFlag),
		wireerr.If(t.Type&BitReserved != 0, ErrReservedBit),
		wireerr.If(t.Reserved != 0, ErrReservedTrace),
	)
}
