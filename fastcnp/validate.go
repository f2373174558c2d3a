package fastcnp

import (
	"errors"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
)

// Deviations of a Fast CNP from the draft, besides those of package cnp.
var (
	errAct         = wireerr.New("fastcnp", "option type", 0, "act bits are not 10", wireerr.Malformed)
	errChg         = wireerr.New("fastcnp", "option type", 0, "chg bit is set", wireerr.Malformed)
	errReservedSet = wireerr.New("fastcnp", "option 2", 0, "reserved octet is not 0", wireerr.Malformed)
	errAlignment   = wireerr.New("fastcnp", "option", 0,
		"not aligned as in the figure: option 1 at 4n+2, option 2 at 4n", wireerr.Malformed)
)

// Validate returns nil for a Fast CNP that follows the draft, otherwise an
// error that names every deviation, including those of [cnp.CNP.Validate];
// errors.Is finds each. The alignment (D3) is checked only if Offset is set, as
// it is after decoding.
func (n *Notification) Validate() error {
	typ := n.optionType(CodePoints{}.withDefaults())
	o, y := &n.Option, 2
	if o.Number == 2 {
		y = 0
	}
	return errors.Join(
		n.CNP.Validate(),
		wireerr.If(!n.Src.Is6() || !n.Dst.Is6(), errAddresses),
		wireerr.If(rocev2.CheckAnswerable(n.Src) != nil || rocev2.CheckAnswerable(n.Dst) != nil ||
			rocev2.CheckAnswerable(o.OriginalDst) != nil, rocev2.ErrNotReachable),
		wireerr.If(typ.Action() != ipv6opt.ActionDiscardICMP, errAct),
		wireerr.If(typ.MayChange(), errChg),
		o.checkFields(),
		wireerr.If(o.Number == 2 && o.Reserved != 0, errReservedSet),
		wireerr.If(n.Offset != 0 && n.Offset%4 != y, errAlignment),
	)
}
