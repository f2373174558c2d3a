package rocev2

import "github.com/rocecn/rocecn/icrc"

// VerifyICRC checks the ICRC of a decoded packet and sets Coverage to the one
// that matches, so that AppendBinary computes the ICRC as the sender did (D1).
// The errors are [icrc.ErrMismatch], and [ErrCut] for a Truncated packet; the
// Coverage is then as it was. It reads p.IP, not the fields.
//
// An ICRC that does not cover the extension headers is what a packet carries
// when a node behind its sender inserted them, as IOAM does.
func (p *Packet) VerifyICRC() (icrc.Coverage, error) {
	if p.Truncated {
		return p.Coverage, ErrCut
	}
	c, err := icrc.Verify(p.IP)
	if err != nil {
		return p.Coverage, err
	}
	p.Coverage = c
	return c, nil
}
