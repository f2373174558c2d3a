package bth

import "github.com/rocecn/rocecn/internal/enumtext"

// PayloadRule says what stands between the extended headers and the ICRC.
type PayloadRule uint8

// The rules.
const (
	PayloadUnknown  PayloadRule = iota // unknown opcode: anything, kept raw, pad included
	PayloadNone                        // no payload
	PayloadAny                         // a payload of any length, none included, and its pad
	PayloadEight                       // a payload of exactly 8 octets: ATOMIC WRITE
	PayloadReserved                    // the 16 reserved octets of the CNP
)

var payloadRuleNames = [...]string{"unknown", "none", "any", "8 octets", "16 reserved octets"}

// String describes the rule in a word or two.
func (r PayloadRule) String() string { return enumtext.Name(r, payloadRuleNames[:], "PayloadRule") }

// Sets of transports, for the table below.
const (
	rc       = 1 << TransportRC
	uc       = 1 << TransportUC
	rd       = 1 << TransportRD
	ud       = 1 << TransportUD
	xrc      = 1 << TransportXRC
	reliable = rc | rd | xrc
	allButUD = reliable | uc
)

// operations has one row an operation: what it is called, which headers are
// its own, what payload it has, and which transports have it. RD and XRC FLUSH
// and XRC ATOMIC WRITE are taken to be like those of RC.
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

// layout is what an opcode says about the octets behind the BTH.
type layout struct {
	headers HeaderSet
	length  uint8 // of these headers, in octets
	payload PayloadRule
}

// layouts has the layout of every opcode, the zero layout for unknown ones.
var layouts = makeLayouts()

func makeLayouts() (table [256]layout) {
	for i, row := range operations {
		op := Operation(i)
		for t := TransportRC; t <= TransportXRC; t++ {
			if row.transports>>t&1 == 0 {
				continue
			}
			l := layout{headers: t.headers(op) | row.headers, payload: row.payload}
			for x := range l.headers.All() {
				l.length += extended[x.bit()].size
			}
			table[t.Opcode(op)] = l
		}
	}
	table[CNP].payload = PayloadReserved
	return table
}

// headers returns the extended headers that a transport puts before those of
// the operation.
func (t Transport) headers(op Operation) HeaderSet {
	switch {
	case t == TransportRD && (op.response() || op == OpFlush):
		return HasRDETH
	case t == TransportRD:
		return HasRDETH | HasDETH
	case t == TransportUD:
		return HasDETH
	case t == TransportXRC && !op.response():
		return HasXRCETH
	default:
		return 0
	}
}
