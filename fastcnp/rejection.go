package fastcnp

import (
	"encoding/binary"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Errors of FromICMP.
var (
	errTruncatedICMP = wireerr.New("fastcnp", "ICMPv6 message", "truncated: shorter than 8 octets",
		wireerr.Truncated)
	errNotProblem = wireerr.New("fastcnp", "ICMPv6 message",
		"not a Parameter Problem (type 4) with code 2, unrecognized IPv6 option", wireerr.Other)
	errPointer = wireerr.New("fastcnp", "Pointer", "not the offset of a Fast CNP option type", wireerr.Other)
)

// FromICMP decodes the answer of a host that does not know the Fast CNP option: an
// ICMPv6 Parameter Problem, code 2, with a Pointer to the option type (RFC 8200
// section 4.2, RFC 4443 section 3.4). It returns the quoted Fast CNP, with
// reserved octets that may be incomplete. Its Dst is the sender that does not support Fast CNPs, its
// FlowKey the congested flow. The trace aliases b.
//
// b is the complete ICMPv6 message, from the ICMPv6 type on, as an ICMPv6 socket
// delivers it. The checksum is not verified. For other ICMPv6 messages and other
// Pointers the error matches rocecn.ErrOther. If the quoted packet is not a Fast CNP,
// the error is that of rocev2.Packet.Decode or [FromPacket].
//
// Such a message can be forged: the caller must check that its source address is the
// Dst of a Fast CNP that it has sent.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 4    |   Code = 2    |          Checksum             |
//	|                            Pointer                            |
//	~    As much of the invoking packet as possible, 1280 in all    ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func FromICMP(b []byte, c CodePoints) (Notification, error) {
	if len(b) < wire.ICMPv6Size {
		return Notification{}, errTruncatedICMP
	}
	if b[0] != wire.ICMPv6ParameterProblem || b[1] != wire.ICMPv6UnrecognisedOption {
		return Notification{}, errNotProblem
	}
	pointer := binary.BigEndian.Uint32(b[4:])
	var p rocev2.Packet
	o := rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true}
	if err := p.Decode(b[wire.ICMPv6Size:], o); err != nil {
		return Notification{}, err
	}
	n, err := FromPacket(&p, c)
	if err != nil {
		return Notification{}, err
	}
	if uint32(len(p.Outer)+n.Offset) != pointer {
		return Notification{}, errPointer
	}
	return n, nil
}
