package flows

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/qplearn"
)

// A Packet has the fields of a packet that the accounting needs. Several Decoders can set
// Packets at the same time for one [Table], which must get them in the order of the
// capture. It holds no pointers, and aliases nothing.
type Packet struct {
	kind kind

	icrcWrong bool
	truncated bool
	noHeaders bool // the capture cut the extended headers
	tunnelled bool // label and ingress are set

	nHops        uint8 // number of hops that are set; queue is set if it is not 0
	trafficClass uint8
	pcp          uint8    // bit n: the tag has PCP n; 0 without a tag
	macs         [12]byte // destination and source of the frame; 0 if it is not Ethernet
	vlan         uint16   // 0 without
	ident        uint16   // Identification of an IPv4 header
	snapLength   uint16   // octets of the frame, if the capture has too few of them; else 0
	ipOctets     uint32

	// pkt has the fields that the map of queue pairs needs, too. Its flow has the addresses
	// and the queue pair of the packet itself, or withoutQP. DMA is 0 with noHeaders.
	pkt qplearn.Observation

	// The fields of few packets follow those of all, so that the others are written and read
	// without touching the cache lines of these.

	about   key                  // the flow that a Fast CNP, PPFC or proxy message names
	queue   QueueDepth           // the deepest of the trace
	hops    [maxNodes]QueueDepth // of the first nodes in the trace of a request or Fast CNP
	ingress [16]byte             // source of the outermost IPv6 header; of an FCN its destination
	label   uint32               // flow label of that header; of an FCN the one it is about
	pause   pause
}

// readLength returns the length of a READ, or unknownLength if the capture cut it.
func (p *Packet) readLength() uint32 {
	if p.noHeaders {
		return unknownLength
	}
	return p.pkt.DMA
}

// kind is what a packet is to the accounting.
type kind uint8

const (
	otherTraffic  kind = iota // neither RoCEv2 nor a congestion message
	invalidKind               // one of these that cannot be decoded
	truncatedKind             // perhaps one of these: the capture cut the octets that would tell
	requestKind
	answerKind
	cnpKind
	fastKind
	ppfcKind
	fcnKind
	proxyKind
	pfcKind
)

// A MessageKind is what the requests of one work request carry out together.
type MessageKind uint8

// The kinds of messages.
const (
	MessageSend MessageKind = iota
	MessageWrite
	MessageRead
	MessageAtomic
	MessageFlush
	MessageAtomicWrite
	noMessage
)

// messageKinds is how many kinds there are.
const messageKinds = int(noMessage)

var kindNames = [messageKinds]string{"SEND", "RDMA WRITE", "RDMA READ", "ATOMIC", "FLUSH", "ATOMIC WRITE"}

// String returns the name of the operation as the standard writes it.
func (k MessageKind) String() string {
	return enumtext.Name(k, kindNames[:], "MessageKind")
}

// A opcodeRole is what an opcode means to a flow.
type opcodeRole struct {
	kind        kind
	message     MessageKind
	begins      bool // the first packet of a message; also what belongs to no message
	completes   bool // the last packet of a message
	ends        bool // nothing of the message follows: the last packet, or the only request of a READ or ATOMIC
	asks        bool // a request that the responder's data completes
	acknowledge bool // Acknowledge, whose syndrome decides
	firstResponse,
	lastResponse bool // of a READ
}

// operations are the roles of the operations, with what one alone says.
var operations = [32]opcodeRole{
	bth.OpSendFirst:                  {kind: requestKind, message: MessageSend, begins: true},
	bth.OpSendMiddle:                 {kind: requestKind, message: MessageSend},
	bth.OpSendLast:                   {kind: requestKind, message: MessageSend, completes: true},
	bth.OpSendLastWithImmediate:      {kind: requestKind, message: MessageSend, completes: true},
	bth.OpSendLastWithInvalidate:     {kind: requestKind, message: MessageSend, completes: true},
	bth.OpSendOnly:                   {kind: requestKind, message: MessageSend, begins: true, completes: true},
	bth.OpSendOnlyWithImmediate:      {kind: requestKind, message: MessageSend, begins: true, completes: true},
	bth.OpSendOnlyWithInvalidate:     {kind: requestKind, message: MessageSend, begins: true, completes: true},
	bth.OpRDMAWriteFirst:             {kind: requestKind, message: MessageWrite, begins: true},
	bth.OpRDMAWriteMiddle:            {kind: requestKind, message: MessageWrite},
	bth.OpRDMAWriteLast:              {kind: requestKind, message: MessageWrite, completes: true},
	bth.OpRDMAWriteLastWithImmediate: {kind: requestKind, message: MessageWrite, completes: true},
	bth.OpRDMAWriteOnly:              {kind: requestKind, message: MessageWrite, begins: true, completes: true},
	bth.OpRDMAWriteOnlyWithImmediate: {kind: requestKind, message: MessageWrite, begins: true, completes: true},
	bth.OpRDMAReadRequest:            {kind: requestKind, message: MessageRead, begins: true, asks: true},
	bth.OpCmpSwap:                    {kind: requestKind, message: MessageAtomic, begins: true, asks: true},
	bth.OpFetchAdd:                   {kind: requestKind, message: MessageAtomic, begins: true, asks: true},
	bth.OpFlush:                      {kind: requestKind, message: MessageFlush, begins: true, completes: true},
	bth.OpAtomicWrite:                {kind: requestKind, message: MessageAtomicWrite, begins: true, completes: true},
	bth.OpResync:                     {kind: requestKind, message: noMessage, begins: true}, // takes a PSN and is no message
	bth.OpRDMAReadResponseFirst:      {kind: answerKind, message: MessageRead, firstResponse: true},
	bth.OpRDMAReadResponseMiddle:     {kind: answerKind, message: MessageRead},
	bth.OpRDMAReadResponseLast:       {kind: answerKind, message: MessageRead, lastResponse: true},
	bth.OpRDMAReadResponseOnly:       {kind: answerKind, message: MessageRead, firstResponse: true, lastResponse: true},
	bth.OpAtomicAcknowledge:          {kind: answerKind, message: MessageAtomic},
	bth.OpAcknowledge:                {kind: answerKind, message: noMessage, begins: true, acknowledge: true},
}

// roles are those of all opcodes.
var roles = newRoles()

func newRoles() (all [256]opcodeRole) {
	for i := range all {
		if op := bth.Opcode(i); op == bth.CNP {
			all[i].kind = cnpKind
		} else if op.IsKnown() {
			r := operations[op.Operation()]
			r.ends = r.completes || r.asks || r.message == noMessage
			all[i] = r
		}
	}
	return all
}

// isManagement says whether a queue pair is one of the two that management uses.
func isManagement(qp uint32) bool { return qp&maxQP <= 1 }

// hasSequence says whether the PSNs of a flow follow one another: those of UD and
// of management mean nothing.
func hasSequence(t bth.Transport, qp uint32) bool {
	return t != bth.TransportUD && !isManagement(qp)
}
