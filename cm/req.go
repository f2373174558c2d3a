package cm

import "fmt"

// Values of the field TransportType of a REQ (IBTA section 12.7.6). They differ from those of bth.Transport.
const (
	TransportTypeRC       = 0
	TransportTypeUC       = 1
	TransportTypeRD       = 2
	TransportTypeExtended = 3 // see ExtendedTransport
)

// ExtendedTransportXRC is the value of the field ExtendedTransport for XRC.
const ExtendedTransportXRC = 1

var (
	errREQ24   = newRangeError("REQ: LocalQPN, LocalEECN, RemoteEECN or StartingPSN", over24)
	errREQBits = newRangeError("REQ",
		"RemoteResponseTimeout or LocalResponseTimeout over 5 bits, PathMTU or MaxCMRetries "+
			"over 4, RetryCount, RNRRetryCount or ExtendedTransport over 3, or TransportType over 2")
)

// REQ requests a connection (IBTA section 12.6.5).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                          LocalCommID                          |
//	|                           Reserved1                           |
//	|                        ServiceID (64)                         |
//	|                       LocalCAGUID (64)                        |
//	|                           Reserved2                           |
//	|                           LocalQKey                           |
//	|                   LocalQPN                    | ResponderRes. | 32
//	|                   LocalEECN                   | InitiatorDep. |
//	|                  RemoteEECN                   |RemTimeo.|TT |E|
//	|                  StartingPSN                  |LocTimeo.|Retry|
//	|             PKey              |  MTU  |D|RNRRe|MaxRe. |S|ExtTr| 48
//	|                       Primary (44 octets)                     | 52
//	|                      Alternate (44 octets)                    | 96
//	|                     PrivateData (92 octets)                   | 140
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// TT is TransportType, E EndToEndFlowControl, D RDCExists, S SRQ.
type REQ struct {
	LocalCommID           uint32
	Reserved1             uint32
	ServiceID             ServiceID
	LocalCAGUID           uint64
	Reserved2             uint32
	LocalQKey             uint32
	LocalQPN              uint32 // queue pair of the requester, 24 bits
	ResponderResources    uint8  // number of READ and ATOMIC requests that may be outstanding
	LocalEECN             uint32 // 24 bits
	InitiatorDepth        uint8
	RemoteEECN            uint32 // 24 bits
	RemoteResponseTimeout uint8  // 4.096 µs · 2^RemoteResponseTimeout; 5 bits
	TransportType         uint8  // 2 bits
	EndToEndFlowControl   bool
	StartingPSN           uint32 // PSN of the responder's first packet, 24 bits
	LocalResponseTimeout  uint8  // 4.096 µs · 2^LocalResponseTimeout; 5 bits
	RetryCount            uint8  // 3 bits
	PKey                  uint16
	PathMTU               uint8 // code of the path MTU, 4 bits: see MTU
	RDCExists             bool
	RNRRetryCount         uint8 // 3 bits; 7 is unlimited
	MaxCMRetries          uint8 // 4 bits
	SRQ                   bool  // the queue pair uses a shared receive queue
	ExtendedTransport     uint8 // 3 bits
	Primary, Alternate    Path
	PrivateData           [92]byte // begins with an IPData if ServiceID.IP reports true
}

// MTU returns the path MTU in octets: 256, 512, 1024, 2048 or 4096 for a PathMTU of
// 1 to 5, and 0 for other values.
func (m *REQ) MTU() uint16 {
	if m.PathMTU < 1 || m.PathMTU > 5 {
		return 0
	}
	return 128 << m.PathMTU
}

// Decode reads the message at the start of b, which follows a [Header].
func (m *REQ) Decode(b []byte) (rest []byte, err error) {
	octets, rest, err := splitMessage(b, AttributeREQ)
	if err != nil {
		return nil, err
	}
	m.LocalCommID = be.Uint32(octets[0:])
	m.Reserved1 = be.Uint32(octets[4:])
	m.ServiceID = ServiceID(be.Uint64(octets[8:]))
	m.LocalCAGUID = be.Uint64(octets[16:])
	m.Reserved2 = be.Uint32(octets[24:])
	m.LocalQKey = be.Uint32(octets[28:])
	m.LocalQPN, m.ResponderResources = readUint24(octets[32:])
	m.LocalEECN, m.InitiatorDepth = readUint24(octets[36:])
	var low uint8
	m.RemoteEECN, low = readUint24(octets[40:])
	m.RemoteResponseTimeout, m.TransportType, m.EndToEndFlowControl = low>>3, low>>1&3, low&1 != 0
	m.StartingPSN, low = readUint24(octets[44:])
	m.LocalResponseTimeout, m.RetryCount = low>>3, low&7
	m.PKey = be.Uint16(octets[48:])
	m.PathMTU, m.RDCExists, m.RNRRetryCount = octets[50]>>4, octets[50]>>3&1 != 0, octets[50]&7
	m.MaxCMRetries, m.SRQ, m.ExtendedTransport = octets[51]>>4, octets[51]>>3&1 != 0, octets[51]&7
	m.Primary.readFields((*[pathSize]byte)(octets[52:]))
	m.Alternate.readFields((*[pathSize]byte)(octets[96:]))
	m.PrivateData = [92]byte(octets[140:])
	return rest, nil
}

// AppendBinary appends the 232 octets of the message to b.
func (m *REQ) AppendBinary(b []byte) ([]byte, error) {
	if err := m.rangeError(); err != nil {
		return b, err
	}
	b, octets := growBuffer(b)
	be.PutUint32(octets[0:], m.LocalCommID)
	be.PutUint32(octets[4:], m.Reserved1)
	be.PutUint64(octets[8:], uint64(m.ServiceID))
	be.PutUint64(octets[16:], m.LocalCAGUID)
	be.PutUint32(octets[24:], m.Reserved2)
	be.PutUint32(octets[28:], m.LocalQKey)
	writeUint24(octets[32:], m.LocalQPN, m.ResponderResources)
	writeUint24(octets[36:], m.LocalEECN, m.InitiatorDepth)
	writeUint24(octets[40:], m.RemoteEECN, m.RemoteResponseTimeout<<3|m.TransportType<<1|boolBit(m.EndToEndFlowControl))
	writeUint24(octets[44:], m.StartingPSN, m.LocalResponseTimeout<<3|m.RetryCount)
	be.PutUint16(octets[48:], m.PKey)
	octets[50] = m.PathMTU<<4 | boolBit(m.RDCExists)<<3 | m.RNRRetryCount
	octets[51] = m.MaxCMRetries<<4 | boolBit(m.SRQ)<<3 | m.ExtendedTransport
	m.Primary.writeFields((*[pathSize]byte)(octets[52:]))
	m.Alternate.writeFields((*[pathSize]byte)(octets[96:]))
	copy(octets[140:], m.PrivateData[:])
	return b, nil
}

func (m *REQ) rangeError() error {
	switch {
	case (m.LocalQPN|m.LocalEECN|m.RemoteEECN|m.StartingPSN)>>24 != 0:
		return errREQ24
	case (m.RemoteResponseTimeout|m.LocalResponseTimeout)>>5|(m.PathMTU|m.MaxCMRetries)>>4|
		(m.RetryCount|m.RNRRetryCount|m.ExtendedTransport)>>3|m.TransportType>>2 != 0:
		return errREQBits
	}
	if err := m.Primary.rangeError(); err != nil {
		return err
	}
	return m.Alternate.rangeError()
}

// String returns the communication id, service, queue pair, starting PSN, P_Key,
// path MTU and the addresses of the primary path.
func (m REQ) String() string {
	return fmt.Sprintf("LocalCommID 0x%08x %v LocalQPN 0x%06x StartingPSN %d PKey 0x%04x MTU %d from %v to %v",
		m.LocalCommID, m.ServiceID, m.LocalQPN, m.StartingPSN, m.PKey, m.MTU(), m.Primary.LocalGID, m.Primary.RemoteGID)
}
