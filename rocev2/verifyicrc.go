package rocev2

import "github.com/rocecn/rocecn/icrc"

// VerifyICRC verifies the ICRC of a decoded packet. It sets Coverage to the one
// that matches, so that AppendBinary computes the ICRC as the sender did (D1).
// If none matches, the error is of rocecn.ErrICRC; a Truncated packet is one of
// rocecn.ErrTruncated. Both leave Coverage unchanged. It reads p.IP, not the other
// fields.
//
// The ICRC does not cover extension headers that another node inserted after
// the sender had computed it, as with IOAM.
func (p *Packet) VerifyICRC() (icrc.Coverage, error) {
	if p.Truncated {
		return p.Coverage, errTruncated
	}
	c, err := icrc.Verify(p.IP)
	if err != nil {
		return p.Coverage, err
	}
	p.Coverage = c
	return c, nil
}
