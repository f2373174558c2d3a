package bth

import "github.com/rocecn/rocecn/internal/enumtext"

// Operation is the 5 low bits of the opcode: the purpose of a packet, independent
// of its transport.
type Operation uint8

// The operations. Not every transport has all of them.
const (
	OpSendFirst                  Operation = 0x00
	OpSendMiddle                 Operation = 0x01
	OpSendLast                   Operation = 0x02
	OpSendLastWithImmediate      Operation = 0x03
	OpSendOnly                   Operation = 0x04
	OpSendOnlyWithImmediate      Operation = 0x05
	OpRDMAWriteFirst             Operation = 0x06
	OpRDMAWriteMiddle            Operation = 0x07
	OpRDMAWriteLast              Operation = 0x08
	OpRDMAWriteLastWithImmediate Operation = 0x09
	OpRDMAWriteOnly              Operation = 0x0a
	OpRDMAWriteOnlyWithImmediate Operation = 0x0b
	OpRDMAReadRequest            Operation = 0x0c
	OpRDMAReadResponseFirst      Operation = 0x0d
	OpRDMAReadResponseMiddle     Operation = 0x0e
	OpRDMAReadResponseLast       Operation = 0x0f
	OpRDMAReadResponseOnly       Operation = 0x10
	OpAcknowledge                Operation = 0x11
	OpAtomicAcknowledge          Operation = 0x12
	OpCmpSwap                    Operation = 0x13
	OpFetchAdd                   Operation = 0x14
	OpResync                     Operation = 0x15
	OpSendLastWithInvalidate     Operation = 0x16
	OpSendOnlyWithInvalidate     Operation = 0x17
	OpFlush                      Operation = 0x1c
	OpAtomicWrite                Operation = 0x1d
)

// String returns the name of the operation, as in "RDMA WRITE Only with
// Immediate", or for undefined ones a number, as in "Operation(30)".
func (o Operation) String() string {
	if int(o) < len(operations) && operations[o].name != "" {
		return operations[o].name
	}
	return enumtext.Name(o, nil, "Operation")
}

// isResponse reports whether a responder sends packets with this operation: READ
// responses, Acknowledge and ATOMIC Acknowledge.
func (o Operation) isResponse() bool { return OpRDMAReadResponseFirst <= o && o <= OpAtomicAcknowledge }
