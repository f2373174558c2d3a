package ioam

import "slices"

// ProofOfTransit proves that a packet passed certain nodes (RFC 9197 section 4.5).
// Only type 0 is defined:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|         Namespace-ID          |IOAM POT Type=0|IOAM POT flags |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                             PktID                             |
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                          Cumulative                           |
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type ProofOfTransit struct {
	Namespace  uint16
	Type       uint8
	Flags      uint8
	PktID      uint64 // present in type 0
	Cumulative uint64 // present in type 0
	Data       []byte // octets after the first 4 in other types; aliases the packet
}

// Decode reads a proof of transit from all of o.Data, which Data aliases. On error
// p is unchanged.
func (p *ProofOfTransit) Decode(o Option) error {
	if o.Type != OptTypeProofOfTransit {
		return errNotProofOfTransit
	}
	b := o.Data
	if len(b) < 4 || b[2] == 0 && len(b) < 20 {
		return errTruncatedProofOfTransit
	}
	if b[2] == 0 && len(b) > 20 {
		return errProofOfTransitLen
	}
	*p = ProofOfTransit{Namespace: be.Uint16(b), Type: b[2], Flags: b[3]}
	if p.Type == 0 {
		p.PktID = be.Uint64(b[4:])
		p.Cumulative = be.Uint64(b[12:])
	} else {
		p.Data = b[4:]
	}
	return nil
}

// AppendBinary appends the option data to b. It returns an error that matches
// rocecn.ErrMalformed if Type is 0 and Data is not empty.
func (p *ProofOfTransit) AppendBinary(b []byte) ([]byte, error) {
	if p.Type == 0 && len(p.Data) > 0 {
		return b, errProofOfTransitLen
	}
	b = slices.Grow(b, 20+len(p.Data))
	b = be.AppendUint16(b, p.Namespace)
	b = append(b, p.Type, p.Flags)
	if p.Type == 0 {
		b = be.AppendUint64(b, p.PktID)
		return be.AppendUint64(b, p.Cumulative), nil
	}
	return append(b, p.Data...), nil
}
