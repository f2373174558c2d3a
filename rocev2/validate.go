package rocev2

import (
	"errors"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Deviations of a packet from the IBTA specification, in addition to those of package bth. Decode accepts packets with
// such deviations.
var (
	errHopLimit = wireerr.New("rocev2", "hop limit", "0: no router forwards the packet", wireerr.Malformed)
	errPayload  = wireerr.New("rocev2", "payload",
		"present, but the opcode has none", wireerr.Malformed)
	errPayloadEight = wireerr.New("rocev2", "payload", "not 8 octets in an ATOMIC WRITE", wireerr.Malformed)
	errReserved16   = wireerr.New("rocev2", "payload",
		"not 16 octets between BTH and ICRC of a CNP", wireerr.Malformed)
	errPayloadAlign = wireerr.New("rocev2", "payload",
		"with its pad not a multiple of 4 octets", wireerr.Malformed)
)

// Validate returns nil if BTH, extended headers, payload and pad are as the
// specification requires for the opcode and the hop limit is not 0, otherwise an
// error that names the deviations. It does not verify the ICRC or check the payload of unknown
// opcodes. A PPFC notification is not a valid CNP. A Truncated p must have been
// decoded.
func (p *Packet) Validate() error {
	rule, n := p.BTH.Opcode.Payload(), p.PayloadLen()
	return errors.Join(
		p.BTH.Validate(),
		wireerr.If(p.HopLimit == 0, errHopLimit),
		wireerr.If(rule == bth.PayloadNone && n != 0, errPayload),
		wireerr.If(rule == bth.PayloadEight && n != 8, errPayloadEight),
		wireerr.If(rule == bth.PayloadReserved && n != 16, errReserved16),
		wireerr.If(rule == bth.PayloadAny && (n+int(p.BTH.Pad))%4 != 0, errPayloadAlign),
	)
}
