package bth

import (
	"fmt"

	"github.com/rocecn/rocecn/internal/enumtext"
)

// Opcode is the first octet of the BTH (IBTA section 9.2.1): the transport in the
// 3 high bits and the operation in the 5 low bits. It determines the extended
// headers of a packet.
type Opcode uint8

// Transport returns the transport, the 3 high bits.
func (o Opcode) Transport() Transport { return Transport(o >> 5) }

// Opcode returns the opcode of an operation over this transport. Some adapters use
// the opcodes of RD for their own transport with a longer BTH (DCT), which cannot
// be detected in the packet.
func (t Transport) Opcode(o Operation) Opcode { return Opcode(t)<<5 | Opcode(o) }

// Operation returns the operation, the 5 low bits. It is defined only for the
// transports RC, UC, RD, UD and XRC.
func (o Opcode) Operation() Operation { return Operation(o & 0x1f) }

// IsKnown reports whether the opcode is one of the 88 that are defined.
func (o Opcode) IsKnown() bool { return layouts[o].payload != PayloadUnknown }

// IsAcknowledge reports whether the opcode is that of an Acknowledge or ATOMIC
// Acknowledge over any transport. Such packets carry no data, and no notification
// answers them.
func (o Opcode) IsAcknowledge() bool {
	return o.IsKnown() && (o.Operation() == OpAcknowledge || o.Operation() == OpAtomicAcknowledge)
}

// Headers returns the extended headers between the BTH and the payload: none for an
// unknown opcode.
func (o Opcode) Headers() HeaderSet { return layouts[o].headers }

// HeaderLen returns the length of the extended headers in octets, 0 to 40.
func (o Opcode) HeaderLen() int { return int(layouts[o].length) }

// PathMTU returns the path MTU of the sender, in octets, that follows from a packet
// with this opcode and this number of octets of payload: a First or Middle packet
// carries exactly one path MTU, 256 to 4096 octets. It returns 0 for other packets.
func (o Opcode) PathMTU(payload uint32) uint16 {
	if payload < 256 || payload > 4096 || payload&(payload-1) != 0 || o.Payload() != PayloadAny {
		return 0
	}
	switch o.Operation() {
	case OpSendFirst, OpSendMiddle, OpRDMAWriteFirst, OpRDMAWriteMiddle,
		OpRDMAReadResponseFirst, OpRDMAReadResponseMiddle:
		return uint16(payload)
	}
	return 0
}

// Payload returns the rule for the octets after the extended headers.
func (o Opcode) Payload() PayloadRule { return layouts[o].payload }

// String returns transport and operation, as in "RC RDMA WRITE Only", "CNP" for
// the CNP, and for unknown opcodes "RC unknown 0x1e" or "unknown 0xc3".
func (o Opcode) String() string {
	switch {
	case o == CNP:
		return "CNP"
	case o.IsKnown():
		return o.Transport().String() + " " + o.Operation().String()
	case o.Transport() <= TransportXRC:
		return fmt.Sprintf("%v unknown 0x%02x", o.Transport(), uint8(o))
	default:
		return fmt.Sprintf("unknown 0x%02x", uint8(o))
	}
}

// MarshalText returns the text of String.
func (o Opcode) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText sets o to the opcode with this String.
func (o *Opcode) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(o, text, "bth", "opcode")
}

// Reliable Connection. For RD and XRC see [Transport.Opcode].
const (
	RCSendFirst                  Opcode = 0x00
	RCSendMiddle                 Opcode = 0x01
	RCSendLast                   Opcode = 0x02
	RCSendLastWithImmediate      Opcode = 0x03
	RCSendOnly                   Opcode = 0x04
	RCSendOnlyWithImmediate      Opcode = 0x05
	RCRDMAWriteFirst             Opcode = 0x06
	RCRDMAWriteMiddle            Opcode = 0x07
	RCRDMAWriteLast              Opcode = 0x08
	RCRDMAWriteLastWithImmediate Opcode = 0x09
	RCRDMAWriteOnly              Opcode = 0x0a
	RCRDMAWriteOnlyWithImmediate Opcode = 0x0b
	RCRDMAReadRequest            Opcode = 0x0c
	RCRDMAReadResponseFirst      Opcode = 0x0d
	RCRDMAReadResponseMiddle     Opcode = 0x0e
	RCRDMAReadResponseLast       Opcode = 0x0f
	RCRDMAReadResponseOnly       Opcode = 0x10
	RCAcknowledge                Opcode = 0x11
	RCAtomicAcknowledge          Opcode = 0x12
	RCCmpSwap                    Opcode = 0x13
	RCFetchAdd                   Opcode = 0x14
	RCSendLastWithInvalidate     Opcode = 0x16
	RCSendOnlyWithInvalidate     Opcode = 0x17
	RCFlush                      Opcode = 0x1c
	RCAtomicWrite                Opcode = 0x1d
)

// Unreliable Connection.
const (
	UCSendFirst                  Opcode = 0x20
	UCSendMiddle                 Opcode = 0x21
	UCSendLast                   Opcode = 0x22
	UCSendLastWithImmediate      Opcode = 0x23
	UCSendOnly                   Opcode = 0x24
	UCSendOnlyWithImmediate      Opcode = 0x25
	UCRDMAWriteFirst             Opcode = 0x26
	UCRDMAWriteMiddle            Opcode = 0x27
	UCRDMAWriteLast              Opcode = 0x28
	UCRDMAWriteLastWithImmediate Opcode = 0x29
	UCRDMAWriteOnly              Opcode = 0x2a
	UCRDMAWriteOnlyWithImmediate Opcode = 0x2b
)

// Unreliable Datagram.
const (
	UDSendOnly              Opcode = 0x64
	UDSendOnlyWithImmediate Opcode = 0x65
)

// CNP is the opcode of the Congestion Notification Packet, the only one of its
// transport (IBTA annex A17.9.3). Opcode 0x80 is not a CNP.
const CNP Opcode = 0x81
