// Package cnp encodes and decodes the RoCEv2 Congestion Notification Packet
// (IBTA annex A17.9.3), with which the receiver of an ECN-marked packet asks
// its sender to slow down. Decoding does not verify the ICRC:
// rocev2.Packet.VerifyICRC or package message does.
//
// [FromPacket] returns the CNP in a packet, [AppendFor] answers a marked packet,
// and [New] with [CNP.AppendPacket] builds any other CNP.
//
//	sender ── data, marked CE by a switch ──> receiver
//	sender <── CNP: the sender's queue pair ── receiver
//
// The data packet does not carry the sender's queue pair: [github.com/rocecn/rocecn/qpmap]
// learns it. [github.com/rocecn/rocecn/node/receiver] is the complete role.
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

// ReservedSize is the number of reserved octets after the BTH.
const ReservedSize = 16

// A CNP is a Congestion Notification Packet from its BTH up to the ICRC (IBTA
// annex A17.9.3, figure 6):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| Opcode = 0x81 |0|0|Pad| TVer  |         Partition Key         |
//	|0|B|   Resv6   |     Queue pair of the data's sender (24)      |
//	|0|    Resv7    |         Packet Sequence Number = 0 (24)       |
//	|                                                               |
//	|                  Reserved (16 octets), zero                   |
//	|                                                               |
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Decoding accepts any value of the constant fields. Validate names those that
// differ from the annex.
type CNP struct {
	bth.Header
	Reserved [ReservedSize]byte // zero on send, ignored on receipt, kept
}

// ErrOption means that the packet carries a destination option that a host must
// not skip if it does not know it (RFC 8200 section 4.2). It may be a Fast CNP,
// in which DestQP is the queue pair of the receiver and not of the sender.
var ErrOption = wireerr.New("cnp", "Destination Options",
	"an unknown option that must not be skipped, maybe of a Fast CNP",
	wireerr.Other)

var errTruncated = wireerr.New("cnp", "CNP", "truncated: shorter than 28 octets, BTH and reserved octets",
	wireerr.Truncated)

// New returns the CNP that a conforming node sends to a queue pair. pKey is the
// P_Key of the data, 0 for that of the default partition. BECN, which is not in
// the annex's figure, is set, as in practice; all other fields are 0.
func New(destQP uint32, pKey uint16) CNP {
	return CNP{Header: bth.Header{Opcode: bth.CNP, PKey: cmp.Or(pKey, bth.DefaultPKey), BECN: true, DestQP: destQP}}
}

// Decode sets c from b, which begins with the BTH, and returns the octets after
// the reserved ones. On error c is unchanged. The error matches rocecn.ErrOther
// if b is another message.
//
// If b is longer than a CNP, a P bit makes it a PPFC notification. Otherwise the
// bit is kept, because reserved bits are ignored on receipt (D18).
func (c *CNP) Decode(b []byte) (rest []byte, err error) {
	if len(b) < Size {
		return nil, errTruncated
	}
	if err := checkKind(bth.Opcode(b[0]), b[4], len(b)-bth.Size); err != nil {
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

// checkKind rejects other opcodes and PPFC. octet4 of the BTH has F, B and Resv6;
// n is the number of octets between BTH and ICRC.
func checkKind(op bth.Opcode, octet4 uint8, n int) error {
	switch {
	case op != bth.CNP:
		return wireerr.NotCNP
	case octet4&ppfcBit != 0 && n != ReservedSize:
		return wireerr.IsPPFC
	}
	return nil
}

// FromPacket returns the CNP in a decoded packet. The error matches
// rocecn.ErrOther for packets of another kind and rocecn.ErrMalformed for an
// invalid CNP. Opcode 0x81 with the P bit and exactly 16 octets is a CNP, and the
// bit is kept (D18). Missing reserved octets of a truncated packet are zero. The
// pad count is ignored, because a CNP has no pad.
//
// If a Destination Options header holds an option with act bits other than 00,
// FromPacket returns the CNP with ErrOption: a host that does not know the option
// must discard the packet, and a Fast CNP must not be taken for a CNP. An option
// that overruns the header is [ipv6opt.ErrOverrun] (D19).
func FromPacket(p *rocev2.Packet) (c CNP, err error) {
	n := p.PayloadLen()
	if err := checkKind(p.BTH.Opcode, p.BTH.Resv6, n); err != nil {
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

// checkOptions returns ErrOption if there is an option that must not be skipped.
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

// String returns the fields of the BTH, and the reserved octets unless they are
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
