package rocev2

import "github.com/rocecn/rocecn/icrc"

// VerifyICRC verifies the ICRC of a decoded packet and returns the coverage that matches. It also sets p.Coverage to
// it, so that AppendBinary computes the ICRC as the sender did (D1). It reads p.IP, not the other fields.
//
// If no coverage matches, the error matches rocecn.ErrICRC. If p is Truncated, it matches rocecn.ErrTruncated. On error
// p.Coverage is unchanged.
//
// The ICRC does not cover extension headers that another node inserted after the sender had computed it, as with IOAM.
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
