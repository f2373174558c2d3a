package cm

import "fmt"

var errDREQ24 = newRangeError("DREQ: RemoteQPN", over24)

// DREQ ends a connection (IBTA section 12.6.10).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                          LocalCommID                          |
//	|                         RemoteCommID                          |
//	|                   RemoteQPN                   |   Reserved    | 8
//	|                    PrivateData (220 octets)                   | 12
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type DREQ struct {
	LocalCommID  uint32
	RemoteCommID uint32
	RemoteQPN    uint32 // queue pair of the receiver of the message, 24 bits
	Reserved     uint8
	PrivateData  [220]byte
}

// Decode reads the message at the start of b, which follows a [Header].
func (m *DREQ) Decode(b []byte) (rest []byte, err error) {
	octets, rest, err := splitMessage(b, AttributeDREQ)
	if err != nil {
		return nil, err
	}
	m.LocalCommID = be.Uint32(octets[0:])
	m.RemoteCommID = be.Uint32(octets[4:])
	m.RemoteQPN, m.Reserved = readUint24(octets[8:])
	m.PrivateData = [220]byte(octets[12:])
	return rest, nil
}

// AppendBinary appends the 232 octets of the message to b.
func (m *DREQ) AppendBinary(b []byte) ([]byte, error) {
	if m.RemoteQPN>>24 != 0 {
		return b, errDREQ24
	}
	b, octets := growBuffer(b)
	be.PutUint32(octets[0:], m.LocalCommID)
	be.PutUint32(octets[4:], m.RemoteCommID)
	writeUint24(octets[8:], m.RemoteQPN, m.Reserved)
	copy(octets[12:], m.PrivateData[:])
	return b, nil
}

// String returns the communication ids and the queue pair.
func (m DREQ) String() string {
	return fmt.Sprintf("LocalCommID 0x%08x RemoteCommID 0x%08x RemoteQPN 0x%06x", m.LocalCommID, m.RemoteCommID,
		m.RemoteQPN)
}
