package flows

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/qplearn"
)

// A Packet contains the decoded fields of a packet that a [Table] needs. Several Decoders may set
// Packets concurrently for one Table, which must observe them in capture order. A Packet contains
// no pointers and aliases nothing.
type Packet struct {
	kind kind

	icrcWrong bool // or the UDP checksum of an FCN or proxy message
	truncated bool
	noHeaders bool // the extended headers were truncated
	tunnelled bool // label and ingress are set

	nHops        uint8 // number of hops set; queue is set if it is not 0
	trafficClass uint8
	outer        outerHeader
	pcp          uint8    // bit n: the VLAN tag has PCP n; 0 without a tag
	macs         [12]byte // destination and source; 0 if the frame is not Ethernet
	vlan         uint16   // 0 without a tag
	ident        uint16   // Identification of an IPv4 header
	snapLength   uint16   // snapshot length that the frame would have needed in octets; 0 if it was long enough
	ipOctets     uint32
	truncatedLen uint32       // length of a truncated frame in octets; 0 if it is complete
	unread       unreadHeader // of other traffic

	// pkt contains the fields that the queue pair map needs as well. Its flow consists of the
	// addresses and the queue pair of the packet itself, or withoutQP. DMA is 0 if noHeaders is
	// set.
	pkt qplearn.Observation

	// Fields used by few packets come last, so that other packets do not touch their cache lines.

	about   key                  // flow named by a Fast CNP, PPFC or proxy message
	queue   QueueDepth           // deepest queue in the trace
	hops    [maxNodes]QueueDepth // queues of the first nodes in the trace of a request or Fast CNP
	ingress [16]byte             // source of the outermost IPv6 header; for an FCN its destination
	label   uint32               // flow label of that header; for an FCN the label in the message
	pause   pause

	_ [32]byte // makes the size a multiple of 64; most packets use only the first two cache lines
}

// Reset sets p to a packet of other traffic. [Decoder.Decode] does not need it. A program that decodes into packets
// that another CPU has read saves time if it resets all of them first: then the CPU does not wait for the memory of
// each.
func (p *Packet) Reset() {
	p.kind, p.snapLength, p.truncatedLen, p.unread, p.pkt.CM.Attribute = otherTraffic, 0, 0, 0, 0
}

// readLength returns the length of a READ, or unknownLength if it was truncated.
func (p *Packet) readLength() uint32 {
	if p.noHeaders {
		return unknownLength
	}
	return p.pkt.DMA
}

// kind is the role of a packet in a Table.
type kind uint8

const (
	otherTraffic  kind = iota // neither RoCEv2 nor a congestion message
	invalidKind               // RoCEv2 or a congestion message that cannot be decoded
	truncatedKind             // truncated before the octets that identify it
	requestKind
	answerKind
	cnpKind
	fastKind
	ppfcKind
	fcnKind
	proxyKind
	pfcKind
	trimmedKind // data that a switch trimmed instead of dropping it
)

// A MessageKind is the operation of a message.
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

// messageKinds is the number of kinds.
const messageKinds = int(noMessage)

var kindNames = [messageKinds]string{"SEND", "RDMA WRITE", "RDMA READ", "ATOMIC", "FLUSH", "ATOMIC WRITE"}

// String returns the name of the operation as in the InfiniBand specification.
func (k MessageKind) String() string { return enumtext.Name(k, kindNames[:], "MessageKind") }

// An opcodeRole describes an opcode's place in a message.
type opcodeRole struct {
	kind        kind
	message     MessageKind
	begins      bool // first packet of a message, or a packet outside messages
	completes   bool // last packet of a message
	ends        bool // no packet of the message follows: the last packet, or the only request of a READ or ATOMIC
	asks        bool // a request completed by the responder's data
	acknowledge bool // Acknowledge: the syndrome decides
	firstResponse,
	lastResponse bool // last response to a READ
}

// operations are the roles by operation; newRoles adds the fields that follow from others.
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
	// takes a PSN, but is not a message
	bth.OpResync:                 {kind: requestKind, message: noMessage, begins: true},
	bth.OpRDMAReadResponseFirst:  {kind: answerKind, message: MessageRead, firstResponse: true},
	bth.OpRDMAReadResponseMiddle: {kind: answerKind, message: MessageRead},
	bth.OpRDMAReadResponseLast:   {kind: answerKind, message: MessageRead, lastResponse: true},
	bth.OpRDMAReadResponseOnly:   {kind: answerKind, message: MessageRead, firstResponse: true, lastResponse: true},
	bth.OpAtomicAcknowledge:      {kind: answerKind, message: MessageAtomic},
	bth.OpAcknowledge:            {kind: answerKind, message: noMessage, begins: true, acknowledge: true},
}

// roles are the roles of all opcodes.
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

// isManagement reports whether a queue pair is reserved for management (QP 0 and 1).
func isManagement(qp uint32) bool { return qp&maxQP <= 1 }

// hasSequence reports whether the PSNs of a flow are consecutive. Those of UD and of management are
// not.
func hasSequence(t bth.Transport, qp uint32) bool { return t != bth.TransportUD && !isManagement(qp) }
