package cm

import "fmt"

var errTruncatedRTU = truncated("RTU")

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

// Decode reads the message at the start of b, which follows a [Header], and
// returns what follows it, which aliases b.
func (m *RTU) Decode(b []byte) (rest []byte, err error) {
	if len(b) < MessageSize {
		return nil, errTruncatedRTU
	}
	m.set((*body)(b))
	return b[MessageSize:], nil
}

// AppendBinary appends the 232 octets of the message to b.
func (m *RTU) AppendBinary(b []byte) ([]byte, error) {
	b, more := grow(b, MessageSize)
	m.put((*body)(more))
	return b, nil
}

// MarshalBinary returns the 232 octets of the message.
func (m *RTU) MarshalBinary() ([]byte, error) { return m.AppendBinary(nil) }

// UnmarshalBinary reads a message from b, which must hold nothing else.
func (m *RTU) UnmarshalBinary(b []byte) error { return unmarshal(m, b, MessageSize) }

func (m *RTU) set(b *body) {
	m.LocalCommID = be.Uint32(b[0:])
	m.RemoteCommID = be.Uint32(b[4:])
	m.PrivateData = [224]byte(b[8:])
}

func (m *RTU) put(b *body) {
	be.PutUint32(b[0:], m.LocalCommID)
	be.PutUint32(b[4:], m.RemoteCommID)
	copy(b[8:], m.PrivateData[:])
}

// String returns the two communication ids.
func (m RTU) String() string {
	return fmt.Sprintf("LocalCommID 0x%08x RemoteCommID 0x%08x", m.LocalCommID, m.RemoteCommID)
}
