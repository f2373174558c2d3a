package cm

import "fmt"

// RTU tells the responder that the connection can be used (IBTA section
// 12.6.9).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                          LocalCommID                          |
//	|                         RemoteCommID                          |
//	|                    PrivateData (224 octets)                   | 8
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type RTU struct {
	LocalCommID  uint32
	RemoteCommID uint32
	PrivateData  [224]byte
}

// Decode reads the message at the start of b, which follows a [Header].
func (m *RTU) Decode(b []byte) (rest []byte, err error) {
	return m.decode(b, AttributeRTU)
}

func (m *RTU) decode(b []byte, a Attribute) (rest []byte, err error) {
	octets, rest, err := message(b, a)
	if err != nil {
		return nil, err
	}
	m.LocalCommID = be.Uint32(octets[0:])
	m.RemoteCommID = be.Uint32(octets[4:])
	m.PrivateData = [224]byte(octets[8:])
	return rest, nil
}

// AppendBinary appends the 232 octets of the message to b.
func (m *RTU) AppendBinary(b []byte) ([]byte, error) {
	b, octets := grow(b)
	be.PutUint32(octets[0:], m.LocalCommID)
	be.PutUint32(octets[4:], m.RemoteCommID)
	copy(octets[8:], m.PrivateData[:])
	return b, nil
}

// String returns the two communication ids.
func (m RTU) String() string {
	return fmt.Sprintf("LocalCommID 0x%08x RemoteCommID 0x%08x", m.LocalCommID, m.RemoteCommID)
}

// DREP confirms the end of a connection (IBTA section 12.6.11). Its fields are
// those of an [RTU].
type DREP RTU

// Decode reads the message at the start of b, which follows a [Header].
func (m *DREP) Decode(b []byte) (rest []byte, err error) { return (*RTU)(m).decode(b, AttributeDREP) }

// AppendBinary appends the 232 octets of the message to b.
func (m *DREP) AppendBinary(b []byte) ([]byte, error) { return (*RTU)(m).AppendBinary(b) }

// String returns the two communication ids.
func (m DREP) String() string { return RTU(m).String() }
