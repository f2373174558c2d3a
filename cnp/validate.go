package cnp

import (
	"errors"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Deviations of a CNP from the annex.
var (
	errSolicited   = wireerr.New("cnp", "Solicited Event", "set", wireerr.Malformed)
	errMigReq      = wireerr.New("cnp", "MigReq", "set", wireerr.Malformed)
	errPad         = wireerr.New("cnp", "pad count", "not 0", wireerr.Malformed)
	errFECN        = wireerr.New("cnp", "FECN", "set", wireerr.Malformed)
	errDestQP      = wireerr.New("cnp", "DestQP", "0", wireerr.Malformed)
	errAckReq      = wireerr.New("cnp", "acknowledge request", "set", wireerr.Malformed)
	errPSN         = wireerr.New("cnp", "PSN", "not 0", wireerr.Malformed)
	errReservedSet = wireerr.New("cnp", "reserved octets", "not 0", wireerr.Malformed)
)

// Validate returns nil if c is as the annex requires, otherwise an error that
// names every deviation, including those of [bth.Header.Validate]. BECN may be
// set or not: the figure of the annex does not show it, and network cards set
// it.
func (c CNP) Validate() error {
	return errors.Join(
		c.Header.Validate(),
		wireerr.If(c.Opcode != bth.CNP, wireerr.NotCNP),
		wireerr.If(c.Solicited, errSolicited),
		wireerr.If(c.MigReq, errMigReq),
		wireerr.If(c.Pad != 0, errPad),
		wireerr.If(c.FECN, errFECN),
		wireerr.If(c.DestQP == 0, errDestQP),
		wireerr.If(c.AckReq, errAckReq),
		wireerr.If(c.PSN != 0, errPSN),
		wireerr.If(c.Reserved != [ReservedSize]byte{}, errReservedSet),
	)
}
