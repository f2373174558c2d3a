package fastcnp

import (
	"errors"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
)

// Errors of Validate, in addition to those of package cnp.
var (
	errAct         = wireerr.New("fastcnp", "option type", "act bits are not 10", wireerr.Malformed)
	errChg         = wireerr.New("fastcnp", "option type", "chg bit is set", wireerr.Malformed)
	errReservedSet = wireerr.New("fastcnp", "option 2", "reserved octet is not 0", wireerr.Malformed)
	errAlignment   = wireerr.New("fastcnp", "option",
		"alignment is not 4n+2 (option 1) or 4n (option 2)", wireerr.Malformed)
)

// Validate returns an error that names every deviation from the draft, including those
// of [cnp.CNP.Validate]; errors.Is matches each. It checks the alignment (D3) only if
// Offset is not 0, as after decoding.
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
