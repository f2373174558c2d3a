package ppfc

import (
	"errors"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Deviations of a notification from the draft, besides those of package bth.
var (
	ErrDestQP      = wireerr.Old("ppfc: destination queue pair is 0", wireerr.Malformed)
	ErrFlagsSet    = wireerr.Old("ppfc: Flags are not 0, none is defined", wireerr.Malformed)
	ErrReservedSet = wireerr.Old("ppfc: reserved bits are not 0", wireerr.Malformed)
)

// Validate returns nil for a notification as the draft has it, otherwise an
// error that names every deviation: what AppendBinary refuses, and reserved
// bits, flags, version and queue pair that are not as they must be. errors.Is
// finds each.
func (n *Notification) Validate() error {
	resv5 := n.Resv6 &^ bth.P
	return errors.Join(
		wireerr.If(n.Opcode != bth.CNP, ErrNotPPFC),
		wireerr.If(n.Resv6&bth.P == 0, ErrP),
		wireerr.If(n.Pad > 3, bth.ErrPadRange),
		wireerr.If(n.TVer != 0, bth.ErrTVer),
		wireerr.If(resv5 != 0, bth.ErrResv6),
		wireerr.If(n.DestQP == 0, ErrDestQP),
		wireerr.If(n.DestQP > 0xFFFFFF, bth.ErrDestQPRange),
		wireerr.If(n.Resv7 != 0, bth.ErrResv7),
		wireerr.If(n.PSN > 0xFFFFFF, bth.ErrPSNRange),
		wireerr.If(!n.Congested.IsValid(), ErrCongested),
		wireerr.If(n.Flags != 0, ErrFlagsSet),
		wireerr.If(n.Flags >= 1<<14, ErrFlagsRange),
		wireerr.If(n.Type > Hold, ErrTypeRange),
		wireerr.If(n.Reserved != 0, ErrReservedSet),
		wireerr.If(!n.pauseFits(), ErrPauseRange),
	)
}
