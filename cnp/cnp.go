// Package cnp encodes and decodes the RoCEv2 Congestion Notification Packet
// (IBTA annex A17.9.3), with which the receiver of an ECN-marked packet asks
// its sender to slow down. Decoding does not verify the ICRC:
// rocev2.Packet.VerifyICRC or package message does.
//
// To take a CNP out of a packet call [FromPacket], to answer a marked packet
// [AppendFor], to send one of your own [New] and [CNP.AppendPacket].
//
//	sender ── data, marked CE by a switch ──> receiver
//	sender <── CNP: the sender's queue pair ── receiver
//
// The data packet does not say which queue pair that is: [github.com/rocecn/rocecn/qpmap]
// learns it. [github.com/rocecn/rocecn/node/receiver] is the whole role.
package cnp

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ipv6opt"
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

// ErrOption: the packet carries a destination option that a host which does
// not know it must not skip (RFC 8200 section 4.2). It may be a Fast CNP,
// whose DestQP is another queue pair than a CNP's.
var ErrOption = wireerr.New("cnp", "Destination Options", 0, "an option that must not be skipped: maybe a Fast CNP",
	wireerr.Other)

var errTruncated = wireerr.New("cnp", "CNP", Size, "truncated: 28 octets of BTH and reserved octets needed",
	wireerr.Truncated)

// New returns the CNP that a conforming node sends to a queue pair. pKey is the
// P_Key of the data, 0 for that of the default partition. BECN, which is not in
// the annex's figure, is set, as in practice; all other fields are 0.
func New(destQP uint32, pKey uint16) CNP {
	return CNP{Header: bth.Header{Opcode: bth.CNP, PKey: cmp.Or(pKey, bth.DefaultPKey), BECN: true, DestQP: destQP}}
}

// Decode sets c from the octets that begin with the BTH and returns those
// behind the reserved octets. On error c is unchanged.
//
// Where b goes on behind the reserved octets, a P bit makes it a PPFC
// notification; where it ends there it is a CNP whose bit is kept, as reserved
// bits are ignored on receipt (D18). What is not a CNP is of rocecn.ErrOther.
func (c *CNP) Decode(b []byte) (rest []byte, err error) {
	if len(b) < Size {
		return nil, errTruncated
	}
	if err := recognise(bth.Opcode(b[0]), b[4], len(b)-bth.Size); err != nil {
		return nil, err
	}
	rest, err = c.Header.Decode(b)
	if err != nil {
		return nil, err
	}
	c.Reserved = [ReservedSize]byte(rest)
	return rest[ReservedSize:], nil
}

// ppfcBit is the bit P of Resv6, which is ppfc.Bit.
const ppfcBit = 0x20

// recognise tells a CNP from other opcodes and from PPFC: octet 4 of the BTH is
// F, B and Resv6, n is how many octets stand between BTH and ICRC.
func recognise(op bth.Opcode, octet4 uint8, n int) error {
	switch {
	case op != bth.CNP:
		return wireerr.NotCNP
	case octet4&ppfcBit != 0 && n != ReservedSize:
		return wireerr.IsPPFC
	}
	return nil
}

// FromPacket returns the CNP in a decoded packet. The error is of
// rocecn.ErrOther for packets of another kind, of rocecn.ErrMalformed for a
// broken CNP. OpCode 0x81 with the P bit and exactly 16 octets is a CNP whose
// bit is kept (D18). Of a truncated packet, reserved octets that are missing are
// zero. The pad count is ignored: a CNP has no pad.
//
// A CNP with a Destination Options header that holds an option whose act bits
// are not 00 is ErrOption: a host that does not know the option must discard the
// packet, and a Fast CNP must not pass for a CNP. The CNP is returned all the
// same, for those who only classify. An option that overruns the header is
// [ipv6opt.ErrOverrun] (D19).
func FromPacket(p *rocev2.Packet) (c CNP, err error) {
	n := p.PayloadLen()
	if err := recognise(p.BTH.Opcode, p.BTH.Resv6, n); err != nil {
		return CNP{}, err
	}
	if n != ReservedSize {
		return CNP{}, wireerr.CNPLength
	}
	if len(p.Ext) > 0 {
		if err = checkOptions(p); err == ipv6opt.ErrOverrun {
			return CNP{}, err
		}
	}
	c.Header = p.BTH.Header
	if p.Truncated {
		copy(c.Reserved[:], p.Payload)
	} else {
		c.Reserved = [ReservedSize]byte(p.Payload) // n octets; this takes less than copy
	}
	return c, err
}

// checkOptions looks for an option that must not be skipped.
func checkOptions(p *rocev2.Packet) error {
	for next, octets := range p.Extensions() {
		var h ipv6opt.Header
		if next != ipv6opt.DestinationOptions {
			continue
		}
		if _, err := h.Decode(octets); err != nil {
			return err
		}
		for o, err := range h.All() {
			switch {
			case err != nil:
				return err
			case o.Type.Action() != ipv6opt.ActionSkip:
				return ErrOption
			}
		}
	}
	return nil
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
func (c CNP) AppendBinary(b []byte) ([]byte, error) {
	if c.Opcode != bth.CNP {
		return b, wireerr.NotCNP
	}
	out, err := c.Header.AppendBinary(slices.Grow(b, Size))
	if err != nil {
		return b, err
	}
	return append(out, c.Reserved[:]...), nil
}
