package bth

import "github.com/rocecn/rocecn/internal/enumtext"

// PayloadRule describes the octets between the extended headers and the ICRC.
type PayloadRule uint8

// The rules for the payload.
const (
	PayloadUnknown  PayloadRule = iota // unknown opcode: any octets, with the pad if there is one
	PayloadNone                        // no payload
	PayloadAny                         // a payload of any length, also 0, and its pad
	PayloadEight                       // a payload of 8 octets: ATOMIC WRITE
	PayloadReserved                    // the 16 reserved octets of the CNP
)

var payloadRuleNames = [...]string{"unknown", "none", "any", "8 octets", "16 reserved octets"}

// String returns the rule in up to three words.
func (r PayloadRule) String() string { return enumtext.Name(r, payloadRuleNames[:], "PayloadRule") }

// Sets of transports.
const (
	rc       = 1 << TransportRC
	uc       = 1 << TransportUC
	rd       = 1 << TransportRD
	ud       = 1 << TransportUD
	xrc      = 1 << TransportXRC
	reliable = rc | rd | xrc
	allButUD = reliable | uc
)

// operations has, for each operation, its name, its own headers, its payload and
// its transports. FLUSH over RD and XRC and ATOMIC WRITE over XRC are assumed to be
// like those over RC.
var operations = [32]struct {
	name       string
	headers    HeaderSet
	payload    PayloadRule
	transports uint8
}{
	OpSendFirst:                  {"SEND First", 0, PayloadAny, allButUD},
	OpSendMiddle:                 {"SEND Middle", 0, PayloadAny, allButUD},
	OpSendLast:                   {"SEND Last", 0, PayloadAny, allButUD},
	OpSendLastWithImmediate:      {"SEND Last with Immediate", HasImmDt, PayloadAny, allButUD},
	OpSendOnly:                   {"SEND Only", 0, PayloadAny, allButUD | ud},
	OpSendOnlyWithImmediate:      {"SEND Only with Immediate", HasImmDt, PayloadAny, allButUD | ud},
	OpRDMAWriteFirst:             {"RDMA WRITE First", HasRETH, PayloadAny, allButUD},
	OpRDMAWriteMiddle:            {"RDMA WRITE Middle", 0, PayloadAny, allButUD},
	OpRDMAWriteLast:              {"RDMA WRITE Last", 0, PayloadAny, allButUD},
	OpRDMAWriteLastWithImmediate: {"RDMA WRITE Last with Immediate", HasImmDt, PayloadAny, allButUD},
	OpRDMAWriteOnly:              {"RDMA WRITE Only", HasRETH, PayloadAny, allButUD},
	OpRDMAWriteOnlyWithImmediate: {"RDMA WRITE Only with Immediate", HasRETH | HasImmDt, PayloadAny, allButUD},
	OpRDMAReadRequest:            {"RDMA READ Request", HasRETH, PayloadNone, reliable},
	OpRDMAReadResponseFirst:      {"RDMA READ response First", HasAETH, PayloadAny, reliable},
	OpRDMAReadResponseMiddle:     {"RDMA READ response Middle", 0, PayloadAny, reliable},
	OpRDMAReadResponseLast:       {"RDMA READ response Last", HasAETH, PayloadAny, reliable},
	OpRDMAReadResponseOnly:       {"RDMA READ response Only", HasAETH, PayloadAny, reliable},
	OpAcknowledge:                {"Acknowledge", HasAETH, PayloadNone, reliable},
	OpAtomicAcknowledge:          {"ATOMIC Acknowledge", HasAETH | HasAtomicAckETH, PayloadNone, reliable},
	OpCmpSwap:                    {"CmpSwap", HasAtomicETH, PayloadNone, reliable},
	OpFetchAdd:                   {"FetchAdd", HasAtomicETH, PayloadNone, reliable},
	OpResync:                     {"Resync", 0, PayloadNone, rd},
	OpSendLastWithInvalidate:     {"SEND Last with Invalidate", HasIETH, PayloadAny, rc | xrc},
	OpSendOnlyWithInvalidate:     {"SEND Only with Invalidate", HasIETH, PayloadAny, rc | xrc},
	OpFlush:                      {"FLUSH", HasFETH | HasRETH, PayloadNone, reliable},
	OpAtomicWrite:                {"ATOMIC WRITE", HasRETH, PayloadEight, rc | xrc},
}

// layout describes the octets after the BTH for an opcode.
type layout struct {
	headers HeaderSet
	length  uint8 // length of the headers in octets
	payload PayloadRule
}

// layouts has the layout of each opcode: the zero layout for unknown ones.
var layouts = makeLayouts()

func makeLayouts() (table [256]layout) {
	for i, row := range operations {
		op := Operation(i)
		for t := TransportRC; t <= TransportXRC; t++ {
			if row.transports>>t&1 == 0 {
				continue
			}
			l := layout{headers: t.leadingHeaders(op) | row.headers, payload: row.payload}
			for x := range l.headers.All() {
				l.length += extended[x.lowestBit()].size
			}
			table[t.Opcode(op)] = l
		}
	}
	table[CNP].payload = PayloadReserved
	return table
}

// leadingHeaders returns the extended headers of the transport, which precede those
// of the operation.
func (t Transport) leadingHeaders(op Operation) HeaderSet {
	switch {
	case t == TransportRD && (op.isResponse() || op == OpFlush):
		return HasRDETH
	case t == TransportRD:
		return HasRDETH | HasDETH
	case t == TransportUD:
		return HasDETH
	case t == TransportXRC && !op.isResponse():
		return HasXRCETH
	default:
		return 0
	}
}
