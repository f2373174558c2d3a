package rocev2

import (
	"errors"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Deviations of a packet from the IBTA specification, besides those of package
// bth. Decode shows them and does not refuse them.
var (
	errPayload = wireerr.New("rocev2", "payload", 0,
		"there is one where the opcode has none", wireerr.Malformed)
	errPayloadEight = wireerr.New("rocev2", "payload", 0, "not 8 octets in an ATOMIC WRITE", wireerr.Malformed)
	errReserved16   = wireerr.New("rocev2", "payload", 0,
		"not 16 octets between BTH and ICRC of a CNP", wireerr.Malformed)
	errPayloadAlign = wireerr.New("rocev2", "payload", 0,
		"with its pad no multiple of 4 octets", wireerr.Malformed)
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
		wireerr.If(rule == bth.PayloadNone && n != 0, errPayload),
		wireerr.If(rule == bth.PayloadEight && n != 8, errPayloadEight),
		wireerr.If(rule == bth.PayloadReserved && n != 16, errReserved16),
		wireerr.If(rule == bth.PayloadAny && (n+int(p.BTH.Pad))%4 != 0, errPayloadAlign),
	)
}
