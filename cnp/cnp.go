// Package cnp encodes and decodes the RoCEv2 Congestion Notification Packet
// (IBTA annex A17.9.3), with which the receiver of an ECN-marked packet asks
// its sender to slow down.
package cnp

import (
	"fmt"
	"slices"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Size is the length of a CNP from the BTH up to the ICRC.
const Size = bth.Size + ReservedSize

// ReservedSize is the number of reserved octets behind the BTH.
const ReservedSize = 16

// A CNP is a Congestion Notification Packet from its BTH up to the ICRC (IBTA
// annex A17.9.3, figure 6):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| OpCode = 0x81 |0|0|Pad| TVer  |         Partition Key         |
//	|0|B|   Resv6   |     Queue pair of the data's sender (24)      |
//	|0|    Resv7    |         Packet Sequence Number = 0 (24)       |
//	|                                                               |
//	|                  Reserved (16 octets), zero                   |
//	|                                                               |
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Decoding fixes none of the constant fields; Validate names those that are
// not as the annex has them.
type CNP struct {
	bth.Header
	Reserved [ReservedSize]byte // zero on send, ignored on receipt, kept
}

// What Decode, FromPacket and AppendBinary refuse. ErrNotCNP and ErrPPFC say
// that the octets are another message.
var (
	ErrTruncated = wireerr.Old("cnp: truncated: 28 octets of BTH and reserved octets needed", wireerr.Truncated)
	ErrNotCNP    = wireerr.Old("cnp: BTH OpCode is not 0x81")
	ErrPPFC      = wireerr.Old("cnp: the P bit is set: a PPFC notification, no CNP")
	ErrLength    = wireerr.Old("cnp: not exactly 16 octets between BTH and ICRC", wireerr.Malformed)
)

// New returns the CNP that a conforming node sends: everything zero but the
// queue pair, the P_Key and BECN, which is not in the annex's figure and is
// set in practice.
func New(destQP uint32, pKey uint16) CNP {
	return CNP{Header: bth.Header{Opcode: bth.CNP, PKey: pKey, BECN: true, DestQP: destQP}}
}

// Decode sets c from the octets that begin with the BTH and returns those
// behind the reserved octets. On error c is unchanged.
func (c *CNP) Decode(b []byte) (rest []byte, err error) {
	if len(b) < Size {
		return nil, ErrTruncated
	}
	if err := recognise(bth.Opcode(b[0]), b[4]); err != nil {
		return nil, err
	}
	rest, err = c.Header.Decode(b)
	if err != nil {
		return nil, err
	}
	c.Reserved = [ReservedSize]byte(rest)
	return rest[ReservedSize:], nil
}

// recognise tells a CNP from other opcodes and from PPFC (octet 4 is F, B and
// Resv6).
func recognise(op bth.Opcode, octet4 uint8) error {
	switch {
	case op != bth.CNP:
		return ErrNotCNP
	case octet4&bth.P != 0:
		return ErrPPFC
	}
	return nil
}

// FromPacket returns the CNP in a decoded packet. It returns ErrNotCNP or
// ErrPPFC for packets of another kind and ErrLength for a broken CNP. Of a
// truncated packet, reserved octets that are missing are zero. The pad count
// is ignored: a CNP has no pad.
//
// A Fast CNP is a CNP too; package fastcnp tells them apart.
func FromPacket(p *rocev2.Packet) (c CNP, err error) {
	if err := recognise(p.BTH.Opcode, p.BTH.Resv6); err != nil {
		return CNP{}, err
	}
	if p.PayloadLen() != ReservedSize {
		return CNP{}, ErrLength
	}
	c.Header = p.BTH.Header
	copy(c.Reserved[:], p.Payload)
	return c, nil
}

// String returns the BTH's fields, and the reserved octets where they are not
// zero.
func (c CNP) String() string {
	s := c.Header.String()
	if c.Reserved != [ReservedSize]byte{} {
		s += fmt.Sprintf(" Reserved %x", c.Reserved)
	}
	return s
}

// AppendBinary appends BTH and reserved octets, without the ICRC.
func (c *CNP) AppendBinary(b []byte) ([]byte, error) {
	if err := recognise(c.Opcode, c.Resv6); err != nil {
		return b, err
	}
	out, err := c.Header.AppendBinary(slices.Grow(b, Size))
	if err != nil {
		return b, err
	}
	return append(out, c.Reserved[:]...), nil
}

// MarshalBinary returns BTH and reserved octets, without the ICRC.
func (c *CNP) MarshalBinary() ([]byte, error) { return c.AppendBinary(nil) }

// UnmarshalBinary sets c from exactly BTH and reserved octets.
func (c *CNP) UnmarshalBinary(b []byte) error {
	if len(b) > Size {
		return ErrLength
	}
	_, err := c.Decode(b)
	return err
}
