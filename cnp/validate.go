package cnp

import (
	"errors"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Deviations of a CNP from the annex.
var (
	ErrSolicited   = wireerr.Old("cnp: Solicited Event is set", wireerr.Malformed)
	ErrMigReq      = wireerr.Old("cnp: MigReq is set", wireerr.Malformed)
	ErrPad         = wireerr.Old("cnp: pad count is not 0", wireerr.Malformed)
	ErrTVer        = wireerr.Old("cnp: transport header version is not 0", wireerr.Malformed)
	ErrFECN        = wireerr.Old("cnp: FECN is set", wireerr.Malformed)
	ErrResv6       = wireerr.Old("cnp: reserved bits behind BECN are not 0", wireerr.Malformed)
	ErrDestQP      = wireerr.Old("cnp: destination queue pair is 0", wireerr.Malformed)
	ErrAckReq      = wireerr.Old("cnp: acknowledge request is set", wireerr.Malformed)
	ErrResv7       = wireerr.Old("cnp: reserved bits before the PSN are not 0", wireerr.Malformed)
	ErrPSN         = wireerr.Old("cnp: PSN is not 0", wireerr.Malformed)
	ErrReservedSet = wireerr.Old("cnp: reserved octets are not 0", wireerr.Malformed)
)

// Validate returns nil for a CNP as the annex has it, otherwise an error that
// names every deviation; errors.Is finds each. BECN may be set or not: the
// annex's figure leaves it out, hardware sets it, and no receiver may ask for
// it.
func (c *CNP) Validate() error {
	return errors.Join(
		wireerr.If(c.Opcode != bth.CNP, ErrNotCNP),
		wireerr.If(c.Solicited, ErrSolicited),
		wireerr.If(c.MigReq, ErrMigReq),
		wireerr.If(c.Pad != 0, ErrPad),
		wireerr.If(c.TVer != 0, ErrTVer),
		wireerr.If(c.FECN, ErrFECN),
		wireerr.If(c.Resv6 != 0, ErrResv6),
		wireerr.If(c.DestQP == 0, ErrDestQP),
		wireerr.If(c.DestQP > 0xFFFFFF, bth.ErrDestQPRange),
		wireerr.If(c.AckReq, ErrAckReq),
		wireerr.If(c.Resv7 != 0, ErrResv7),
		wireerr.If(c.PSN != 0, ErrPSN),
		wireerr.If(c.Reserved != [ReservedSize]byte{}, ErrReservedSet),
	)
}
