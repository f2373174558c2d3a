package proxymsg

import (
	"cmp"
	"errors"

	"github.com/rocecn/rocecn/internal/answer"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Deviations of a message from the draft.
var (
	errReservedSet = wireerr.New("proxymsg", "Reserved", "not 0", wireerr.Malformed)
	errTooLong     = wireerr.New("proxymsg", "message", "over 1232 octets, more than fit into a packet",
		wireerr.Malformed)
	errNoFlow    = wireerr.New("proxymsg", "invoking packet", "does not identify a flow", wireerr.Malformed)
	errOtherFlow = wireerr.New("proxymsg", "five-tuple", "not that of the invoking packet", wireerr.Malformed)
)

// Validate returns nil for a message that follows the draft, otherwise an error
// that names every deviation. Addresses of two families, unreachable addresses,
// a level over 7 and reserved bits that do not fit match rocecn.ErrRange; other
// deviations match rocecn.ErrMalformed. A message without an invoking packet is
// valid.
func (m *Message) Validate() error {
	return errors.Join(
		wireerr.If(!m.isOneFamily(), errAddress),
		cmp.Or(rocev2.CheckAnswerable(m.Src), rocev2.CheckAnswerable(m.Dst)),
		wireerr.If(m.Level > MaxLevel, errLevelRange),
		wireerr.If(m.Reserved > maxReserved, errReservedRange),
		wireerr.If(m.Reserved != 0, errReservedSet),
		wireerr.If(m.layout().size+len(m.Invoking) > answer.ProxyIPv6-40-8, errTooLong),
		m.validateInvoking(),
	)
}

// validateInvoking compares the five-tuple with the invoking packet's.
func (m *Message) validateInvoking() error {
	if len(m.Invoking) == 0 {
		return nil
	}
	var f rocev2.Frame
	m.frame(&f)
	flow, err := f.FiveTuple()
	if err != nil {
		return errors.Join(errNoFlow, err)
	}
	return wireerr.If(flow != m.FiveTuple, errOtherFlow)
}
