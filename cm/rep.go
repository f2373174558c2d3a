package cm

import "fmt"

var (
	errREP24   = newRangeError("REP: LocalQPN, LocalEECN or StartingPSN", over24)
	errREPBits = newRangeError("REP",
		"TargetAckDelay over 5 bits, FailoverAccepted over 2, RNRRetryCount over 3 or Reserved4 over 4")
)

// REP accepts a [REQ] (IBTA section 12.6.8).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                          LocalCommID                          |
//	|                         RemoteCommID                          |
//	|                           LocalQKey                           |
//	|                   LocalQPN                    |   Reserved1   | 12
//	|                   LocalEECN                   |   Reserved2   |
//	|                  StartingPSN                  |   Reserved3   |
//	| ResponderRes. | InitiatorDep. |AckDelay |FA |E|RNRRe|S| Resv4 | 24
//	|                       LocalCAGUID (64)                        |
//	|                    PrivateData (196 octets)                   | 36
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// FA is FailoverAccepted, E EndToEndFlowControl, S SRQ.
type REP struct {
	LocalCommID         uint32
	RemoteCommID        uint32 // LocalCommID of the REQ
	LocalQKey           uint32
	LocalQPN            uint32 // queue pair of the responder, 24 bits; with XRC it is in LocalEECN
	Reserved1           uint8
	LocalEECN           uint32 // 24 bits
	Reserved2           uint8
	StartingPSN         uint32 // PSN of the requester's first packet, 24 bits
	Reserved3           uint8
	ResponderResources  uint8
	InitiatorDepth      uint8
	TargetAckDelay      uint8 // longest delay of an acknowledgement, 4.096 µs · 2^TargetAckDelay; 5 bits
	FailoverAccepted    uint8 // 2 bits: 0 accepted, 1 not supported, 2 rejected
	EndToEndFlowControl bool
	RNRRetryCount       uint8 // 3 bits; 7 is unlimited
	SRQ                 bool
	Reserved4           uint8 // 4 bits
	LocalCAGUID         uint64
	PrivateData         [196]byte
}

// Decode reads the message at the start of b, which follows a [Header].
func (m *REP) Decode(b []byte) (rest []byte, err error) {
	octets, rest, err := splitMessage(b, AttributeREP)
	if err != nil {
		return nil, err
	}
	m.LocalCommID = be.Uint32(octets[0:])
	m.RemoteCommID = be.Uint32(octets[4:])
	m.LocalQKey = be.Uint32(octets[8:])
	m.LocalQPN, m.Reserved1 = readUint24(octets[12:])
	m.LocalEECN, m.Reserved2 = readUint24(octets[16:])
	m.StartingPSN, m.Reserved3 = readUint24(octets[20:])
	m.ResponderResources = octets[24]
	m.InitiatorDepth = octets[25]
	m.TargetAckDelay, m.FailoverAccepted, m.EndToEndFlowControl = octets[26]>>3, octets[26]>>1&3, octets[26]&1 != 0
	m.RNRRetryCount, m.SRQ, m.Reserved4 = octets[27]>>5, octets[27]>>4&1 != 0, octets[27]&0xf
	m.LocalCAGUID = be.Uint64(octets[28:])
	m.PrivateData = [196]byte(octets[36:])
	return rest, nil
}

// AppendBinary appends the 232 octets of the message to b.
func (m *REP) AppendBinary(b []byte) ([]byte, error) {
	if err := m.rangeError(); err != nil {
		return b, err
	}
	b, octets := growBuffer(b)
	be.PutUint32(octets[0:], m.LocalCommID)
	be.PutUint32(octets[4:], m.RemoteCommID)
	be.PutUint32(octets[8:], m.LocalQKey)
	writeUint24(octets[12:], m.LocalQPN, m.Reserved1)
	writeUint24(octets[16:], m.LocalEECN, m.Reserved2)
	writeUint24(octets[20:], m.StartingPSN, m.Reserved3)
	octets[24] = m.ResponderResources
	octets[25] = m.InitiatorDepth
	octets[26] = m.TargetAckDelay<<3 | m.FailoverAccepted<<1 | boolBit(m.EndToEndFlowControl)
	octets[27] = m.RNRRetryCount<<5 | boolBit(m.SRQ)<<4 | m.Reserved4
	be.PutUint64(octets[28:], m.LocalCAGUID)
	copy(octets[36:], m.PrivateData[:])
	return b, nil
}

func (m *REP) rangeError() error {
	switch {
	case (m.LocalQPN|m.LocalEECN|m.StartingPSN)>>24 != 0:
		return errREP24
	case m.TargetAckDelay>>5|m.Reserved4>>4|m.RNRRetryCount>>3|m.FailoverAccepted>>2 != 0:
		return errREPBits
	}
	return nil
}

// String returns the communication ids, the queue pair and the starting PSN.
func (m REP) String() string {
	return fmt.Sprintf("LocalCommID 0x%08x RemoteCommID 0x%08x LocalQPN 0x%06x StartingPSN %d",
		m.LocalCommID, m.RemoteCommID, m.LocalQPN, m.StartingPSN)
}
