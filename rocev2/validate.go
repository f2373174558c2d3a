package rocev2

import (
	"errors"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Deviations of a packet from the IBTA specification, besides those of package
// bth. Decode shows them and does not refuse them.
var (
	ErrPayload      = wireerr.Old("rocev2: payload where the opcode has none", wireerr.Malformed)
	ErrPayloadEight = wireerr.Old("rocev2: payload of ATOMIC WRITE is not 8 octets", wireerr.Malformed)
	ErrReserved16   = wireerr.Old("rocev2: not 16 octets between BTH and ICRC of a CNP", wireerr.Malformed)
	ErrPayloadAlign = wireerr.Old("rocev2: payload and pad together are no multiple of 4 octets", wireerr.Malformed)
)

// Validate returns nil for a packet whose BTH, extended headers, payload and
// pad are as the specification has them for its opcode, otherwise an error
// that names what deviates. The ICRC is not looked at, nothing is said of the
// payload of unknown opcodes, and a PPFC notification is not a valid CNP. p must
// have been decoded.
func (p *Packet) Validate() error {
	rule, n := p.BTH.Opcode.Payload(), p.PayloadLen()
	return errors.Join(
		p.BTH.Validate(),
		wireerr.If(rule == bth.PayloadNone && n != 0, ErrPayload),
		wireerr.If(rule == bth.PayloadEight && n != 8, ErrPayloadEight),
		wireerr.If(rule == bth.PayloadReserved && n != 16, ErrReserved16),
		wireerr.If(rule == bth.PayloadAny && (n+int(p.BTH.Pad))%4 != 0, ErrPayloadAlign),
	)
}
