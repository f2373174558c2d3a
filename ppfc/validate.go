package ppfc

import (
	"errors"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Deviations of a notification from the draft, besides those of package bth.
var (
	errDestQP      = wireerr.New("ppfc", "DestQP", 0, "0", wireerr.Malformed)
	errFlagsSet    = wireerr.New("ppfc", "Flags", 0, "not 0, none is defined", wireerr.Malformed)
	errReservedSet = wireerr.New("ppfc", "Reserved", 0, "not 0", wireerr.Malformed)
)

// Validate returns nil for a notification as the draft has it, otherwise an
// error that names every deviation: what AppendBinary refuses, and reserved
// bits, flags, version and queue pair that are not as they must be. An address that
// AppendPacket rejects, rocev2.ErrNotReachable, is none: a node may receive one.
func (n Notification) Validate() error {
	header := n.Header
	header.Resv6 &^= Bit
	return errors.Join(
		header.Validate(),
		wireerr.If(n.Opcode != bth.CNP, errNotPPFC),
		wireerr.If(n.Resv6&Bit == 0, errCNP),
		wireerr.If(n.DestQP == 0, errDestQP),
		wireerr.If(!n.Congested.IsValid(), errCongested),
		wireerr.If(n.Flags != 0, errFlagsSet),
		wireerr.If(n.Flags >= 1<<14, errFlagsRange),
		wireerr.If(n.Type > Hold, errTypeRange),
		wireerr.If(n.Reserved != 0, errReservedSet),
		wireerr.If(!n.pauseFits(), errPauseRange),
	)
}
