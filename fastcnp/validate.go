package fastcnp

import (
	"errors"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
)

// Deviations of a Fast CNP from the draft, besides those of package cnp.
var (
	ErrAct         = wireerr.Old("fastcnp: the act bits of the option type are not 10", wireerr.Malformed)
	ErrChg         = wireerr.Old("fastcnp: the chg bit of the option type is set", wireerr.Malformed)
	ErrReservedSet = wireerr.Old("fastcnp: the reserved octet of option 2 is not 0", wireerr.Malformed)
	ErrAlignment   = wireerr.Old("fastcnp: option is not aligned as in the figure: option 1 at 4n+2, option 2 at 4n", wireerr.Malformed)
)

// Validate returns nil for a Fast CNP as the draft has it, otherwise an error
// that names every deviation, those of [cnp.CNP.Validate] among them;
// errors.Is finds each. The alignment (D3) is checked where Offset is set, as
// it is after decoding.
func (n *Notification) Validate() error {
	typ := n.OptionType
	if typ == 0 {
		typ = DefaultType
	}
	o, y := &n.Option, 2
	if o.Number == 2 {
		y = 0
	}
	return errors.Join(
		n.CNP.Validate(),
		wireerr.If(!n.Source.Is6() || !n.Destination.Is6(), rocev2.ErrAddress),
		wireerr.If(typ.Action() != ipv6opt.DiscardICMP, ErrAct),
		wireerr.If(typ.MayChange(), ErrChg),
		o.check(),
		wireerr.If(o.Number == 2 && o.Reserved != 0, ErrReservedSet),
		wireerr.If(n.Offset != 0 && n.Offset%4 != y, ErrAlignment),
	)
}
