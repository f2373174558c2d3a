// Package cnp encodes and decodes the RoCEv2 Congestion Notification Packet
// (IBTA annex A17.9.3), with which the receiver of an ECN-marked packet asks
// its sender to slow down.
//
//	sender ── data, marked CE by a switch ──> receiver
//	sender <── CNP: the sender's queue pair ── receiver
//
// A sender calls [FromPacket] with a received packet, and a receiver
// [AppendFor] with a marked data packet. [New] and [CNP.AppendPacket] build any
// other CNP. Decoding does not verify the ICRC: call rocev2.Packet.VerifyICRC,
// or use package message.
//
// The data packet does not carry the sender's queue pair:
// [github.com/rocecn/rocecn/qpmap] learns it. The complete roles are
// [github.com/rocecn/rocecn/node/receiver] and
// [github.com/rocecn/rocecn/node/sender].
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

// New returns a CNP for the queue pair destQP. pKey is the P_Key of the data; 0
// stands for bth.DefaultPKey. BECN is set, as network cards do, although the
// figure of the annex does not show it; all other fields are 0.
func New(destQP uint32, pKey uint16) CNP {
	return CNP{Header: bth.Header{Opcode: bth.CNP, PKey: cmp.Or(pKey, bth.DefaultPKey), BECN: true, DestQP: destQP}}
}

// Decode sets c from b, which begins with the BTH, and returns the octets after
// the reserved ones, which alias b. On error c is unchanged. The error matches
// rocecn.ErrOther if b is another message and rocecn.ErrTruncated if it is too
// short.
//
// A BTH with the P bit begins a PPFC notification, unless b has exactly the
// length of a CNP without ICRC: then the P bit is a reserved bit of a CNP
// (D18).
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
// invalid CNP. A packet with opcode 0x81 and exactly 16 octets after the BTH is
// a CNP even if the P bit is set; c keeps the bit (D18). Missing reserved
// octets of a truncated packet are zero. The pad count is ignored, because a
// CNP has no pad.
//
// If a Destination Options header has an option with act bits other than 00,
// FromPacket returns the CNP together with ErrOption. The host must then not
// act on the CNP: a host that does not know the option must discard the packet,
// which may be a Fast CNP. For an option that overruns the header the error is
// [ipv6opt.ErrOverrun] (D19).
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

// AppendBinary appends the BTH and the reserved octets, without the ICRC. If a
// value does not fit its field, it returns b unchanged and an error that
// matches rocecn.ErrRange.
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
