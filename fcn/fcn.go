// Package fcn encodes and decodes the Fast Congestion Notification of wide
// area networks (FCN section 4, draft-he-rtgwg-wan-fcn): the UDP message with
// which a congested node tells the ingress PE the flow label of a congested
// flow.
package fcn

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Port is the UDP destination port. The draft's is not assigned yet (TBD1);
// this is one of the ports of RFC 4727 for experiments.
const Port = 1021

// Size is the length of a message in octets; with its UDP header it has 12.
const Size = 4

// MaxFlowLabel and MaxLevel are the largest values of their fields.
const (
	MaxFlowLabel = 1<<20 - 1
	MaxLevel     = 7
	maxReserved  = 1<<9 - 1
)

// A Message is the data of an FCN (FCN section 4):
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

// What decoding and encoding refuse; the last two are Validate's.
var (
	ErrTruncated      = wireerr.Old("fcn: message truncated: 4 octets needed", wireerr.Truncated)
	ErrLength         = wireerr.Old("fcn: UDP length is not 12: a message has exactly 4 octets", wireerr.Malformed)
	ErrFlowLabelRange = wireerr.Old("fcn: Flow Label over 20 bits", wireerr.Range)
	ErrLevelRange     = wireerr.Old("fcn: congestion level over 7", wireerr.Range)
	ErrReservedRange  = wireerr.Old("fcn: Reserved over 9 bits", wireerr.Range)
	ErrReservedSet    = wireerr.Old("fcn: reserved bits are not 0", wireerr.Malformed)
	ErrFlowLabelZero  = wireerr.Old("fcn: Flow Label is 0, which labels no flow", wireerr.Malformed)
)

// Decode sets m from the first 4 octets of b and returns the rest. On error m
// is unchanged.
func (m *Message) Decode(b []byte) (rest []byte, err error) {
	if len(b) < Size {
		return nil, ErrTruncated
	}
	v := binary.BigEndian.Uint32(b)
	*m = Message{FlowLabel: v >> 12, Level: uint8(v >> 9 & 7), Reserved: uint16(v & maxReserved)}
	return b[Size:], nil
}

// FromDatagram returns the message in a decoded UDP datagram, which must have
// exactly 4 octets of data. Its ports do not matter.
func FromDatagram(d *rocev2.Datagram) (Message, error) {
	var m Message
	if d.Length > 8+Size {
		return m, ErrLength
	}
	_, err := m.Decode(d.Data)
	return m, err
}

// AppendBinary appends the message, without its UDP header. A value that does
// not fit its field is an error.
func (m Message) AppendBinary(b []byte) ([]byte, error) {
	if err := m.fits(); err != nil {
		return b, err
	}
	return binary.BigEndian.AppendUint32(b, m.FlowLabel<<12|uint32(m.Level)<<9|uint32(m.Reserved)), nil
}

func (m Message) fits() error {
	switch {
	case m.FlowLabel > MaxFlowLabel:
		return ErrFlowLabelRange
	case m.Level > MaxLevel:
		return ErrLevelRange
	case m.Reserved > maxReserved:
		return ErrReservedRange
	}
	return nil
}

// MarshalBinary returns the message, without its UDP header.
func (m Message) MarshalBinary() ([]byte, error) { return m.AppendBinary(nil) }

// UnmarshalBinary sets m from exactly 4 octets.
func (m *Message) UnmarshalBinary(b []byte) error {
	if len(b) > Size {
		return ErrLength
	}
	_, err := m.Decode(b)
	return err
}

// Validate returns nil for a message as the draft has it, otherwise an error
// that names every deviation: what AppendBinary refuses, reserved bits that are
// not 0, and a flow label of 0. Level may be 0: the field is optional.
func (m Message) Validate() error {
	return errors.Join(
		wireerr.If(m.FlowLabel > MaxFlowLabel, ErrFlowLabelRange),
		wireerr.If(m.Level > MaxLevel, ErrLevelRange),
		wireerr.If(m.Reserved > maxReserved, ErrReservedRange),
		wireerr.If(m.Reserved != 0, ErrReservedSet),
		wireerr.If(m.FlowLabel == 0, ErrFlowLabelZero),
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
