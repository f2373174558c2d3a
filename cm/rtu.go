package cm

import "fmt"

// RTU confirms a [REP]: the connection is ready to use (IBTA section 12.6.9).
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
func (m *RTU) Decode(b []byte) (rest []byte, err error) { return m.decodeFields(b, AttributeRTU) }

func (m *RTU) decodeFields(b []byte, a Attribute) (rest []byte, err error) {
	octets, rest, err := splitMessage(b, a)
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
	b, octets := growBuffer(b)
	be.PutUint32(octets[0:], m.LocalCommID)
	be.PutUint32(octets[4:], m.RemoteCommID)
	copy(octets[8:], m.PrivateData[:])
	return b, nil
}

// String returns the communication ids.
func (m RTU) String() string {
	return fmt.Sprintf("LocalCommID 0x%08x RemoteCommID 0x%08x", m.LocalCommID, m.RemoteCommID)
}

// DREP confirms the end of a connection (IBTA section 12.6.11). Its fields are
// those of an [RTU].
type DREP RTU

// Decode reads the message at the start of b, which follows a [Header].
func (m *DREP) Decode(b []byte) (rest []byte, err error) {
	return (*RTU)(m).decodeFields(b, AttributeDREP)
}

// AppendBinary appends the 232 octets of the message to b.
func (m *DREP) AppendBinary(b []byte) ([]byte, error) { return (*RTU)(m).AppendBinary(b) }

// String returns the communication ids.
func (m DREP) String() string { return RTU(m).String() }
