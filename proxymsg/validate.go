package proxymsg

import (
	"errors"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Deviations of a message from what a conforming node sends.
var (
	ErrReservedSet = wireerr.Old("proxymsg: reserved bits are not 0", wireerr.Malformed)
	ErrTooLong     = wireerr.Old("proxymsg: message over 1232 octets, which no carrying packet has room for", wireerr.Malformed)
	ErrNoFlow      = wireerr.Old("proxymsg: the invoking packet shows no flow", wireerr.Malformed)
	ErrOtherFlow   = wireerr.Old("proxymsg: the five-tuple is not that of the invoking packet", wireerr.Malformed)
)

// Validate returns nil for a message as the draft has it, otherwise an error
// that names every deviation; errors.Is finds each, also [ErrAddress],
// [ErrLevelRange] and [ErrReservedRange]. A message without an invoking packet is valid.
func (m *Message) Validate() error {
	return errors.Join(
		wireerr.If(!m.oneFamily(), ErrAddress),
		wireerr.If(m.Level > MaxLevel, ErrLevelRange),
		wireerr.If(m.Reserved > maxReserved, ErrReservedRange),
		wireerr.If(m.Reserved != 0, ErrReservedSet),
		wireerr.If(m.layout().size+len(m.Invoking) > maxPacketIPv6-40-8, ErrTooLong),
		m.validateInvoking(),
	)
}

// validateInvoking holds the five-tuple against the invoking packet's.
func (m *Message) validateInvoking() error {
	if len(m.Invoking) == 0 {
		return nil
	}
	var flow rocev2.Flow
	if err := flow.Decode(m.Invoking, rocev2.Options{IP: true, Cut: true}); err != nil {
		return errors.Join(ErrNoFlow, err)
	}
	return wireerr.If(flow.FiveTuple != m.FiveTuple, ErrOtherFlow)
}
