package bth

import "github.com/rocecn/rocecn/internal/enumtext"

// Transport is the transport service of an opcode, 3 bits.
type Transport uint8

// The transports. 6 and 7 are reserved for manufacturers.
const (
	TransportRC  Transport = 0 // Reliable Connection
	TransportUC  Transport = 1 // Unreliable Connection
	TransportRD  Transport = 2 // Reliable Datagram
	TransportUD  Transport = 3 // Unreliable Datagram
	TransportCNP Transport = 4 // congestion notification, opcode 0x81 only
	TransportXRC Transport = 5 // Extended Reliable Connection
)

var transportNames = [...]string{"RC", "UC", "RD", "UD", "CNP", "XRC"}

// String returns the abbreviation of the transport, as in "RC", or the number, as
// in "Transport(6)".
func (t Transport) String() string { return enumtext.Name(t, transportNames[:], "Transport") }
