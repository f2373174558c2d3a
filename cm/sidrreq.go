package cm

import "fmt"

// SIDRREQ requests the queue pair of a datagram service (IBTA section 12.11.1).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                           RequestID                           |
//	|             PKey              |           Reserved            |
//	|                        ServiceID (64)                         |
//	|                    PrivateData (216 octets)                   | 16
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type SIDRREQ struct {
	RequestID   uint32
	PKey        uint16
	Reserved    uint16
	ServiceID   ServiceID
	PrivateData [216]byte // begins with an IPData if ServiceID.IP reports true
}

// Decode reads the message at the start of b, which follows a [Header].
func (m *SIDRREQ) Decode(b []byte) (rest []byte, err error) {
	octets, rest, err := splitMessage(b, AttributeSIDRREQ)
	if err != nil {
		return nil, err
	}
	m.RequestID = be.Uint32(octets[0:])
	m.PKey = be.Uint16(octets[4:])
	m.Reserved = be.Uint16(octets[6:])
	m.ServiceID = ServiceID(be.Uint64(octets[8:]))
	m.PrivateData = [216]byte(octets[16:])
	return rest, nil
}

// AppendBinary appends the 232 octets of the message to b.
func (m *SIDRREQ) AppendBinary(b []byte) ([]byte, error) {
	b, octets := growBuffer(b)
	be.PutUint32(octets[0:], m.RequestID)
	be.PutUint16(octets[4:], m.PKey)
	be.PutUint16(octets[6:], m.Reserved)
	be.PutUint64(octets[8:], uint64(m.ServiceID))
	copy(octets[16:], m.PrivateData[:])
	return b, nil
}

// String returns the request id, the P_Key and the service.
func (m SIDRREQ) String() string {
	return fmt.Sprintf("RequestID 0x%08x PKey 0x%04x %v", m.RequestID, m.PKey, m.ServiceID)
}
