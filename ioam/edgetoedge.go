package ioam

import (
	"fmt"
	"math/bits"
	"slices"
)

// E2EType is an IOAM-E2E-Type: the set of fields of an edge-to-edge option, 16 bits
// (RFC 9197 section 4.6).
type E2EType uint16

// The bits, with their fields of [EdgeToEdge]. Bits 4 to 15 are undefined.
const (
	E2ESequence64 E2EType = 0x8000 // bit 0: Sequence64, 8 octets
	E2ESequence32 E2EType = 0x4000 // bit 1: Sequence32, 4 octets
	E2ESeconds    E2EType = 0x2000 // bit 2: Seconds, 4 octets
	E2EFraction   E2EType = 0x1000 // bit 3: Fraction, 4 octets
)

// String returns the number, as in "0x8000".
func (t E2EType) String() string { return fmt.Sprintf("0x%04x", uint16(t)) }

// EdgeToEdge carries data from the node that adds IOAM to the packet to the node
// that removes it (RFC 9197 section 4.6).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|         Namespace-ID          |         IOAM-E2E-Type         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~              the fields of the bits, in their order           ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type EdgeToEdge struct {
	Namespace  uint16
	Type       E2EType // set of the fields below that are present
	Sequence64 uint64  // bit 0
	Sequence32 uint32  // bit 1
	Seconds    uint32  // bit 2: time of entry into the IOAM domain, in seconds of the namespace's TimeFormat
	Fraction   uint32  // bit 3: fraction of a second of that time, in the unit of the TimeFormat
	Rest       []byte  // remaining octets, the fields of bits 4 to 15; aliases the packet
}

// Decode reads an edge-to-edge option from all of o.Data, which Rest aliases. On
// error e is unchanged.
func (e *EdgeToEdge) Decode(o Option) error {
	if o.Type != OptTypeEdgeToEdge {
		return errNotEdgeToEdge
	}
	if len(o.Data) < 4 {
		return errTruncatedEdgeToEdge
	}
	d := EdgeToEdge{Namespace: be.Uint16(o.Data), Type: E2EType(be.Uint16(o.Data[2:]))}
	b := o.Data[4:]
	if len(b) < d.Type.fieldsLen() {
		return errTruncatedEdgeToEdge
	}
	if d.Type&E2ESequence64 != 0 {
		d.Sequence64 = be.Uint64(b)
		b = b[8:]
	}
	if d.Type&E2ESequence32 != 0 {
		d.Sequence32, b = readWord(b)
	}
	if d.Type&E2ESeconds != 0 {
		d.Seconds, b = readWord(b)
	}
	if d.Type&E2EFraction != 0 {
		d.Fraction, b = readWord(b)
	}
	d.Rest = b
	if err := d.checkFields(); err != nil {
		return err
	}
	*e = d
	return nil
}

// AppendBinary appends the option data to b. It returns an error that matches
// rocecn.ErrMalformed if Rest is not empty and none of bits 4 to 15 is set.
func (e *EdgeToEdge) AppendBinary(b []byte) ([]byte, error) {
	if err := e.checkFields(); err != nil {
		return b, err
	}
	b = slices.Grow(b, 4+e.Type.fieldsLen()+len(e.Rest))
	b = be.AppendUint16(b, e.Namespace)
	b = be.AppendUint16(b, uint16(e.Type))
	if e.Type&E2ESequence64 != 0 {
		b = be.AppendUint64(b, e.Sequence64)
	}
	if e.Type&E2ESequence32 != 0 {
		b = be.AppendUint32(b, e.Sequence32)
	}
	if e.Type&E2ESeconds != 0 {
		b = be.AppendUint32(b, e.Seconds)
	}
	if e.Type&E2EFraction != 0 {
		b = be.AppendUint32(b, e.Fraction)
	}
	return append(b, e.Rest...), nil
}

func (e *EdgeToEdge) checkFields() error {
	if len(e.Rest) > 0 && e.Type&0x0FFF == 0 {
		return errEdgeToEdgeLen
	}
	return nil
}

// fieldsLen returns the length in octets of the fields of bits 0 to 3.
func (t E2EType) fieldsLen() int { return 4*bits.OnesCount16(uint16(t>>12)) + 4*int(t>>15) }
