package cm

import (
	"encoding/binary"
	"fmt"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Lengths in octets.
const (
	HeaderSize  = 24                       // common MAD header
	MessageSize = 232                      // message, after the header
	Size        = HeaderSize + MessageSize // complete datagram
)

// Fixed values of the packets that carry CM messages, and of their MAD header (IBTA
// sections 3.5.3, 13.4.2, 12.6).
const (
	QP   = 1          // source and destination queue pair: the general services interface
	QKey = 0x80010000 // Q_Key of the DETH

	baseVersion  = 1
	class        = 0x07 // communication management
	classVersion = 2
	methodSend   = 0x03 // the only method of the class
)

var (
	errTruncatedHeader = wireerr.New("cm", "MAD header", "truncated: shorter than 24 octets",
		wireerr.Truncated)

	errBaseVersion  = wireerr.New("cm", "BaseVersion", "not 1", wireerr.Malformed)
	errClass        = wireerr.New("cm", "Class", "not 0x07, communication management", wireerr.Malformed)
	errClassVersion = wireerr.New("cm", "ClassVersion", "not 2", wireerr.Malformed)
	errMethod       = wireerr.New("cm", "Method", "not 0x03, Send", wireerr.Malformed)
)

// Attribute identifies the message after the header (IBTA table 105).
type Attribute uint16

// The messages.
const (
	AttributeREQ     Attribute = 0x10
	AttributeMRA     Attribute = 0x11
	AttributeREJ     Attribute = 0x12
	AttributeREP     Attribute = 0x13
	AttributeRTU     Attribute = 0x14
	AttributeDREQ    Attribute = 0x15
	AttributeDREP    Attribute = 0x16
	AttributeSIDRREQ Attribute = 0x17
	AttributeSIDRREP Attribute = 0x18
)

var attributes = [...]string{
	AttributeREQ: "REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP",
}

// IsKnown reports whether a is one of the constants above.
func (a Attribute) IsKnown() bool { return AttributeREQ <= a && a <= AttributeSIDRREP }

// String returns the name of the message, as in "SIDR_REQ", or for other messages
// the number, as in "Attribute(25)".
func (a Attribute) String() string { return enumtext.Name(a, attributes[:], "Attribute") }

// Header is the common header of management datagrams (IBTA section 13.4.3).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  BaseVersion  |     Class     | ClassVersion  |R|   Method    |
//	|            Status             |         ClassSpecific         |
//	|                       TransactionID (64)                      |
//	|           Attribute           |           Reserved            |
//	|                           Modifier                            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type Header struct {
	BaseVersion   uint8  // 1
	Class         uint8  // 0x07
	ClassVersion  uint8  // 2
	Method        uint8  // 0x03; the top bit is R
	Status        uint16 // 0
	ClassSpecific uint16 // 0
	TransactionID uint64 // the same in all messages of one exchange
	Attribute     Attribute
	Reserved      uint16
	Modifier      uint32 // 0
}

// NewHeader returns the header of a message with this TransactionID.
func NewHeader(a Attribute, transactionID uint64) Header {
	return Header{
		BaseVersion: baseVersion, Class: class, ClassVersion: classVersion, Method: methodSend,
		TransactionID: transactionID, Attribute: a,
	}
}

// DecodePayload returns the header and the octets of the CM message in a packet with
// these BTH and extended headers. payload has the captured octets of the payload,
// sent is its length in octets when it was sent (PayloadLen of a rocev2.Packet).
// message aliases payload. ok reports whether the packet carries a CM message:
//
//   - It is a UD SEND Only from queue pair [QP] to queue pair QP, with [QKey].
//   - sent is [Size].
//   - payload has the complete header, and [Header.Validate] accepts it.
func DecodePayload(in *bth.Headers, payload []byte, sent int) (h Header, message []byte, ok bool) {
	if in.Opcode != bth.UDSendOnly || in.DestQP != QP || in.DETH.SrcQP != QP || in.DETH.QKey != QKey ||
		sent != Size || len(payload) > Size {
		return h, nil, false
	}
	message, err := h.Decode(payload)
	return h, message, err == nil && h.Validate() == nil
}

// Decode reads the header at the start of b and returns the octets after it, which
// alias b.
func (h *Header) Decode(b []byte) (rest []byte, err error) {
	if len(b) < HeaderSize {
		return nil, errTruncatedHeader
	}
	h.BaseVersion = b[0]
	h.Class = b[1]
	h.ClassVersion = b[2]
	h.Method = b[3]
	h.Status = be.Uint16(b[4:])
	h.ClassSpecific = be.Uint16(b[6:])
	h.TransactionID = be.Uint64(b[8:])
	h.Attribute = Attribute(be.Uint16(b[16:]))
	h.Reserved = be.Uint16(b[18:])
	h.Modifier = be.Uint32(b[20:])
	return b[HeaderSize:], nil
}

// AppendBinary appends the 24 octets of the header to b. The error is always nil.
func (h *Header) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, h.BaseVersion, h.Class, h.ClassVersion, h.Method)
	b = be.AppendUint16(b, h.Status)
	b = be.AppendUint16(b, h.ClassSpecific)
	b = be.AppendUint64(b, h.TransactionID)
	b = be.AppendUint16(b, uint16(h.Attribute))
	b = be.AppendUint16(b, h.Reserved)
	return be.AppendUint32(b, h.Modifier), nil
}

// Validate returns an error if the versions, class or method are not those of
// communication management. It does not check the other fields.
func (h *Header) Validate() error {
	switch {
	case h.BaseVersion != baseVersion:
		return errBaseVersion
	case h.Class != class:
		return errClass
	case h.ClassVersion != classVersion:
		return errClassVersion
	case h.Method != methodSend:
		return errMethod
	}
	return nil
}

// String returns the name of the message and the transaction.
func (h Header) String() string {
	return fmt.Sprintf("%v TransactionID 0x%x", h.Attribute, h.TransactionID)
}

var be = binary.BigEndian
