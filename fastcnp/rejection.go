package fastcnp

import (
	"encoding/binary"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Errors of FromICMP.
var (
	errTruncatedICMP = wireerr.New("fastcnp", "ICMPv6 message", 8, "truncated: 8 octets needed", wireerr.Truncated)
	errNotProblem    = wireerr.New("fastcnp", "ICMPv6 message", 0,
		"not a Parameter Problem (type 4) with code 2, unrecognized IPv6 option", wireerr.Other)
	errPointer = wireerr.New("fastcnp", "Pointer", 0, "not at a Fast CNP option type", wireerr.Other)
)

// FromICMP is [CodePoints.FromICMP] for options of Option1Type and Option2Type.
func FromICMP(b []byte) (Notification, error) { return CodePoints{}.FromICMP(b) }

// FromICMP decodes the answer of a host that does not know the Fast CNP option:
// an ICMPv6 Parameter Problem, code 2, that points at the type of the option
// (RFC 8200 section 4.2, RFC 4443 section 3.4). It returns the Fast CNP that
// the message quotes, as far as it does: its Dst is the sender that is not
// capable, and FlowKey the flow.
//
// b is what an ICMPv6 socket delivers: it begins with the ICMPv6 type and ends
// with the message. The checksum is not verified. Other ICMPv6 messages, and
// problems with another octet, are an error of rocecn.ErrOther. Quoted packets
// that are not Fast CNPs give the errors of rocev2 and of
// [CodePoints.FromPacket]. The trace aliases b.
//
// Anybody can send such a message: the caller must check that its source is the
// Dst of a Fast CNP that was sent.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 4    |   Code = 2    |          Checksum             |
//	|                            Pointer                            |
//	~    As much of the invoking packet as possible, 1280 in all    ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func (c CodePoints) FromICMP(b []byte) (Notification, error) {
	if len(b) < wire.ICMPv6Size {
		return Notification{}, errTruncatedICMP
	}
	if b[0] != wire.ICMPv6ParameterProblem || b[1] != wire.ICMPv6UnrecognisedOption {
		return Notification{}, errNotProblem
	}
	pointer := binary.BigEndian.Uint32(b[4:])
	var p rocev2.Packet
	if err := p.Decode(b[wire.ICMPv6Size:], rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: true}); err != nil {
		return Notification{}, err
	}
	n, err := c.FromPacket(&p)
	if err != nil {
		return Notification{}, err
	}
	if uint32(len(p.Outer)+n.Offset) != pointer {
		return Notification{}, errPointer
	}
	return n, nil
}
