package cm

import (
	"fmt"

	"github.com/rocecn/rocecn/internal/enumtext"
)

var errREJBits = newRangeError("REJ", "Message over 2 bits, Reserved1 over 6, InfoLen over 7 or Reserved2 over 1")

// REJ rejects a connection or aborts it (IBTA section 12.6.7). LocalCommID is 0 if
// the host that rejects has not assigned one.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                          LocalCommID                          |
//	|                         RemoteCommID                          |
//	|Mes| Reserved1 |   InfoLen   |R|            Reason             | 8
//	|                       Info (72 octets)                        | 12
//	|                    PrivateData (148 octets)                   | 84
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// R is Reserved2.
type REJ struct {
	LocalCommID  uint32
	RemoteCommID uint32
	Message      uint8 // rejected message, 2 bits: 0 REQ, 1 REP, 2 none of these
	Reserved1    uint8 // 6 bits
	InfoLen      uint8 // number of octets of Info in use, 7 bits
	Reserved2    uint8 // 1 bit
	Reason       RejectReason
	Info         [72]byte // additional reject information
	PrivateData  [148]byte
}

// Decode reads the message at the start of b, which follows a [Header].
func (m *REJ) Decode(b []byte) (rest []byte, err error) {
	octets, rest, err := splitMessage(b, AttributeREJ)
	if err != nil {
		return nil, err
	}
	m.LocalCommID = be.Uint32(octets[0:])
	m.RemoteCommID = be.Uint32(octets[4:])
	m.Message, m.Reserved1 = octets[8]>>6, octets[8]&0x3f
	m.InfoLen, m.Reserved2 = octets[9]>>1, octets[9]&1
	m.Reason = RejectReason(be.Uint16(octets[10:]))
	m.Info = [72]byte(octets[12:])
	m.PrivateData = [148]byte(octets[84:])
	return rest, nil
}

// AppendBinary appends the 232 octets of the message to b.
func (m *REJ) AppendBinary(b []byte) ([]byte, error) {
	if m.Message>>2|m.Reserved1>>6|m.InfoLen>>7|m.Reserved2>>1 != 0 {
		return b, errREJBits
	}
	b, octets := growBuffer(b)
	be.PutUint32(octets[0:], m.LocalCommID)
	be.PutUint32(octets[4:], m.RemoteCommID)
	octets[8] = m.Message<<6 | m.Reserved1
	octets[9] = m.InfoLen<<1 | m.Reserved2
	be.PutUint16(octets[10:], uint16(m.Reason))
	copy(octets[12:], m.Info[:])
	copy(octets[84:], m.PrivateData[:])
	return b, nil
}

// String returns the communication ids and the reason.
func (m REJ) String() string {
	return fmt.Sprintf("LocalCommID 0x%08x RemoteCommID 0x%08x Reason %v", m.LocalCommID, m.RemoteCommID, m.Reason)
}

// RejectReason is the reason of a [REJ] (IBTA section 12.6.7.2).
type RejectReason uint16

// The most frequent reasons. String has names for all of them.
const (
	RejectTimeout          RejectReason = 4
	RejectInvalidCommID    RejectReason = 6
	RejectInvalidServiceID RejectReason = 8
	RejectStaleConnection  RejectReason = 10
	RejectConsumer         RejectReason = 28
	RejectDuplicateCommID  RejectReason = 30
)

var rejectReasons = [...]string{
	1: "no queue pair", "no EE context", "no resources", "timeout", "unsupported request", "invalid communication id",
	"invalid communication instance", "invalid service id", "invalid transport type", "stale connection",
	"RDC does not exist", "primary GID rejected", "primary LID rejected", "invalid primary SL",
	"invalid primary traffic class", "invalid primary hop limit", "invalid primary packet rate",
	"alternate GID rejected", "alternate LID rejected", "invalid alternate SL", "invalid alternate traffic class",
	"invalid alternate hop limit", "invalid alternate packet rate", "port and CM redirection", "port redirection",
	"invalid path MTU", "insufficient responder resources", "consumer reject", "RNR retry count rejected",
	"duplicate local communication id", "invalid class version", "invalid primary flow label",
	"invalid alternate flow label", 35: "vendor option not supported", // 35: Linux, include/rdma/ib_cm.h
}

// String returns the reason in words, or for unknown reasons the number, as in
// "RejectReason(34)".
func (r RejectReason) String() string { return enumtext.Name(r, rejectReasons[:], "RejectReason") }
