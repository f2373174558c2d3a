package cm

import "fmt"

var errMRABits = newRangeError("MRA",
	"Message over 2 bits, Reserved1 over 6, ServiceTimeout over 5 or Reserved2 over 3")

// MRA confirms the receipt of a message and announces that the answer takes longer
// (IBTA section 12.6.6).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                          LocalCommID                          |
//	|                         RemoteCommID                          |
//	|Mes| Reserved1 |Service T|Resv2| PrivateData (222 octets)      | 8
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type MRA struct {
	LocalCommID    uint32
	RemoteCommID   uint32
	Message        uint8 // received message, 2 bits: 0 REQ, 1 REP, 2 LAP
	Reserved1      uint8 // 6 bits
	ServiceTimeout uint8 // time until the answer, 4.096 µs · 2^ServiceTimeout; 5 bits
	Reserved2      uint8 // 3 bits
	PrivateData    [222]byte
}

// Decode reads the message at the start of b, which follows a [Header].
func (m *MRA) Decode(b []byte) (rest []byte, err error) {
	octets, rest, err := splitMessage(b, AttributeMRA)
	if err != nil {
		return nil, err
	}
	m.LocalCommID = be.Uint32(octets[0:])
	m.RemoteCommID = be.Uint32(octets[4:])
	m.Message, m.Reserved1 = octets[8]>>6, octets[8]&0x3f
	m.ServiceTimeout, m.Reserved2 = octets[9]>>3, octets[9]&7
	m.PrivateData = [222]byte(octets[10:])
	return rest, nil
}

// AppendBinary appends the 232 octets of the message to b.
func (m *MRA) AppendBinary(b []byte) ([]byte, error) {
	if m.Message>>2|m.Reserved1>>6|m.ServiceTimeout>>5|m.Reserved2>>3 != 0 {
		return b, errMRABits
	}
	b, octets := growBuffer(b)
	be.PutUint32(octets[0:], m.LocalCommID)
	be.PutUint32(octets[4:], m.RemoteCommID)
	octets[8] = m.Message<<6 | m.Reserved1
	octets[9] = m.ServiceTimeout<<3 | m.Reserved2
	copy(octets[10:], m.PrivateData[:])
	return b, nil
}

// String returns the communication ids and the timeout.
func (m MRA) String() string {
	return fmt.Sprintf("LocalCommID 0x%08x RemoteCommID 0x%08x ServiceTimeout %d", m.LocalCommID, m.RemoteCommID,
		m.ServiceTimeout)
}
