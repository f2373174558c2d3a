package ppfc

import (
	"errors"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Deviations of a notification from the draft, besides those of package bth.
var (
	ErrDestQP      = wireerr.New("ppfc: destination queue pair is 0", wireerr.Malformed)
	ErrFlagsSet    = wireerr.New("ppfc: Flags are not 0, none is defined", wireerr.Malformed)
	ErrReservedSet = wireerr.New("ppfc: reserved bits are not 0", wireerr.Malformed)
)

// Validate returns nil for a notification as the draft has it, otherwise an
// error that names every deviation: what AppendBinary refuses, and reserved
// bits, of the BTH and of the extension, flags and a queue pair that are not
// as they must be. errors.Is finds each.
func (n *Notification) Validate() error {
	h := n.Header
	h.Resv6 &^= bth.P
	found := []error{recognise(n.Opcode, n.Resv6), h.Validate(), n.fits()}
	if n.DestQP == 0 {
		found = append(found, ErrDestQP)
	}
	if n.Flags != 0 {
		found = append(found, ErrFlagsSet)
	}
	if n.Reserved != 0 {
		found = append(found, ErrReservedSet)
	}
	return errors.Join(found...)
}
