// Package fcn encodes and decodes the Fast Congestion Notification of wide area
// networks (FCN section 4.1, draft-he-rtgwg-wan-fcn-00): the UDP message with
// which a congested node tells the ingress PE the flow label of a congested
// flow.
//
//	sender ──> ingress PE ═══ flow label L ══> P (congested) ═══> egress PE ──> receiver
//	               │ <────── FCN: L, level ──────┘
//	sender <─ CNP ─┘
//
// The congested node calls [AppendFor] with the tunnelled packet, or [For] to
// send the message through a UDP socket. The PE calls [FromDatagram] with each
// datagram to its port. The complete roles are
// [github.com/rocecn/rocecn/node/congested] and
// [github.com/rocecn/rocecn/node/ingress].
//
// Decoding does not verify the UDP checksum: use a UDP socket,
// rocev2.Datagram.VerifyChecksum or package message.
//
// Experimental: this package may change in a minor release.
package fcn

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Port is the UDP destination port unless configured otherwise. The draft's
// port, TBD1, is not assigned yet; once it is, Port has that value.
const Port = ExperimentalPort

// ExperimentalPort is one of the experimental ports of RFC 4727. It does not change:
// a configuration that names it keeps it when another port is assigned.
const ExperimentalPort = 1021

// Size is the length of a message in octets; with its UDP header it has 12.
const Size = 4

// MaxFlowLabel and MaxLevel are the largest values of their fields.
const (
	MaxFlowLabel = 1<<20 - 1
	MaxLevel     = 7
	maxReserved  = 1<<9 - 1
)

// A Message is the data of an FCN (FCN section 4.2):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              Flow Label               | CL  |     Reserved    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type Message struct {
	FlowLabel uint32 // 20 bits: of the outer IPv6 header of the congested packet
	Level     uint8  // congestion level, 1 lowest … 7 highest; 0 where the sender does not use the field
	Reserved  uint16 // 9 bits: zero on send, ignored on receipt, kept
}

// Errors of decoding and encoding; only Validate returns errReservedSet.
var (
	errTruncated      = wireerr.New("fcn", "message", "truncated: shorter than 4 octets", wireerr.Truncated)
	errLength         = wireerr.New("fcn", "UDP length", "not 12: a message has exactly 4 octets", wireerr.Malformed)
	errFlowLabelRange = wireerr.New("fcn", "Flow Label", "over 20 bits", wireerr.Range)
	errLevelRange     = wireerr.New("fcn", "congestion level", "over 7", wireerr.Range)
	errReservedRange  = wireerr.New("fcn", "Reserved", "over 9 bits", wireerr.Range)
	errReservedSet    = wireerr.New("fcn", "Reserved", "not 0", wireerr.Malformed)
)

// Decode sets m from b, which must have exactly 4 octets. On error m is unchanged.
func (m *Message) Decode(b []byte) error {
	if len(b) != Size {
		return wrongLength(b)
	}
	v := binary.BigEndian.Uint32(b)
	*m = Message{FlowLabel: v >> 12, Level: uint8(v >> 9 & 7), Reserved: uint16(v & maxReserved)}
	return nil
}

func wrongLength(b []byte) error {
	if len(b) < Size {
		return errTruncated
	}
	return errLength
}

// FromDatagram returns the message in a decoded UDP datagram, which must have
// exactly 4 octets of data. It does not check the ports.
func FromDatagram(d *rocev2.Datagram) (Message, error) {
	var m Message
	if d.Length > 8+Size {
		return m, errLength
	}
	err := m.Decode(d.Data)
	return m, err
}

// AppendBinary appends the 4 octets of the message, without a UDP header. If a
// value does not fit its field, it returns b unchanged and an error that
// matches rocecn.ErrRange.
func (m Message) AppendBinary(b []byte) ([]byte, error) {
	if err := m.rangeError(); err != nil {
		return b, err
	}
	return binary.BigEndian.AppendUint32(b, m.FlowLabel<<12|uint32(m.Level)<<9|uint32(m.Reserved)), nil
}

// rangeError returns an error if a value does not fit its field.
func (m Message) rangeError() error {
	switch {
	case m.FlowLabel > MaxFlowLabel:
		return errFlowLabelRange
	case m.Level > MaxLevel:
		return errLevelRange
	case m.Reserved > maxReserved:
		return errReservedRange
	}
	return nil
}

// Validate returns nil for a message that follows the draft, otherwise an error
// that names every deviation: values out of range, reserved bits that are
// not 0, and a flow label of 0. Level may be 0: the field is optional.
func (m Message) Validate() error {
	return errors.Join(
		wireerr.If(m.FlowLabel > MaxFlowLabel, errFlowLabelRange),
		wireerr.If(m.Level > MaxLevel, errLevelRange),
		wireerr.If(m.Reserved > maxReserved, errReservedRange),
		wireerr.If(m.Reserved != 0, errReservedSet),
		wireerr.If(m.FlowLabel == 0, errFlowLabelZero),
	)
}

// String returns the fields, the flow label in hex.
func (m Message) String() string {
	s := fmt.Sprintf("flow label 0x%05x level %d", m.FlowLabel, m.Level)
	if m.Reserved != 0 {
		s += fmt.Sprintf(" Reserved %#x", m.Reserved)
	}
	return s
}
