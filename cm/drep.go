package cm

// DREP confirms the end of a connection (IBTA section 12.6.11). Its fields are
// those of an [RTU].
type DREP RTU

// Decode reads the message at the start of b, which follows a [Header], and
// returns what follows it, which aliases b.
func (m *DREP) Decode(b []byte) (rest []byte, err error) { return (*RTU)(m).decode(b, AttributeDREP) }

// AppendBinary appends the 232 octets of the message to b.
func (m *DREP) AppendBinary(b []byte) ([]byte, error) { return (*RTU)(m).AppendBinary(b) }

// String returns the two communication ids.
func (m DREP) String() string { return RTU(m).String() }
