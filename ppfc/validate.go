package ppfc

import (
	"errors"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Deviations of a notification from the draft, besides those of package bth.
var (
	errDestQP      = wireerr.New("ppfc", "DestQP", "0", wireerr.Malformed)
	errFlagsSet    = wireerr.New("ppfc", "Flags", "not 0: no flag is defined", wireerr.Malformed)
	errReservedSet = wireerr.New("ppfc", "Reserved", "not 0", wireerr.Malformed)
)

// Validate returns nil for a notification that follows the draft, otherwise an
// error that names every deviation: values that do not fit their fields, reserved
// bits and flags that are set, and an invalid version or queue pair. It accepts an
// address that AppendPacket rejects with rocev2.ErrNotReachable, because a node may
// receive one.
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
