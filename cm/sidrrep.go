package cm

import (
	"fmt"

	"github.com/rocecn/rocecn/internal/enumtext"
)

var errSIDRREP24 = newRangeError("SIDR_REP: QPN", over24)

// SIDRREP answers a [SIDRREQ] (IBTA section 12.11.2).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                           RequestID                           |
//	|    Status     |    InfoLen    |           Reserved1           |
//	|                      QPN                      |   Reserved2   | 8
//	|                        ServiceID (64)                         |
//	|                             QKey                              |
//	|                       Info (72 octets)                        | 24
//	|                    PrivateData (136 octets)                   | 96
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type SIDRREP struct {
	RequestID   uint32
	Status      SIDRStatus
	InfoLen     uint8 // number of octets of Info in use
	Reserved1   uint16
	QPN         uint32 // queue pair of the service, 24 bits
	Reserved2   uint8
	ServiceID   ServiceID
	QKey        uint32
	Info        [72]byte // additional information
	PrivateData [136]byte
}

// Decode reads the message at the start of b, which follows a [Header].
func (m *SIDRREP) Decode(b []byte) (rest []byte, err error) {
	octets, rest, err := splitMessage(b, AttributeSIDRREP)
	if err != nil {
		return nil, err
	}
	m.RequestID = be.Uint32(octets[0:])
	m.Status = SIDRStatus(octets[4])
	m.InfoLen = octets[5]
	m.Reserved1 = be.Uint16(octets[6:])
	m.QPN, m.Reserved2 = readUint24(octets[8:])
	m.ServiceID = ServiceID(be.Uint64(octets[12:]))
	m.QKey = be.Uint32(octets[20:])
	m.Info = [72]byte(octets[24:])
	m.PrivateData = [136]byte(octets[96:])
	return rest, nil
}

// AppendBinary appends the 232 octets of the message to b.
func (m *SIDRREP) AppendBinary(b []byte) ([]byte, error) {
	if m.QPN>>24 != 0 {
		return b, errSIDRREP24
	}
	b, octets := growBuffer(b)
	be.PutUint32(octets[0:], m.RequestID)
	octets[4] = uint8(m.Status)
	octets[5] = m.InfoLen
	be.PutUint16(octets[6:], m.Reserved1)
	writeUint24(octets[8:], m.QPN, m.Reserved2)
	be.PutUint64(octets[12:], uint64(m.ServiceID))
	be.PutUint32(octets[20:], m.QKey)
	copy(octets[24:], m.Info[:])
	copy(octets[96:], m.PrivateData[:])
	return b, nil
}

// String returns status, queue pair, Q_Key and service.
func (m SIDRREP) String() string {
	return fmt.Sprintf("RequestID 0x%08x %v QPN 0x%06x QKey 0x%08x %v", m.RequestID, m.Status, m.QPN, m.QKey,
		m.ServiceID)
}

// SIDRStatus is the result of a request for the queue pair of a datagram service.
type SIDRStatus uint8

var sidrStatuses = [...]string{
	"valid", "service id not supported", "rejected by the service", "no queue pair", "redirected",
	"version not supported",
}

// String returns the status in words, as in "valid" for 0, or for unknown ones the
// number, as in "SIDRStatus(6)".
func (s SIDRStatus) String() string { return enumtext.Name(s, sidrStatuses[:], "SIDRStatus") }
