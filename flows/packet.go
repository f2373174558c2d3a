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
	needs        uint16   // octets of the frame, if the capture has too few of them; else 0
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

// asked returns the length of a READ, or unknownLength if the capture cut it.
func (p *Packet) asked() uint32 {
	if p.noHeaders {
		return unknownLength
	}
	return p.pkt.DMA
}

// kind is what a packet is to the accounting.
type kind uint8

const (
	nothing  kind = iota // neither RoCEv2 nor a congestion message
	broken               // one of these that cannot be decoded
	cutShort             // perhaps one of these: the capture cut the octets that would tell
	request
	answer
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
	Send MessageKind = iota
	Write
	Read
	Atomic
	Flush
	AtomicWrite
	noKind
)

// messageKinds is how many kinds there are.
const messageKinds = int(noKind)

var kindNames = [messageKinds]string{"SEND", "RDMA WRITE", "RDMA READ", "ATOMIC", "FLUSH", "ATOMIC WRITE"}

// String returns the name of the operation as the standard writes it.
func (k MessageKind) String() string {
	return enumtext.Name(k, kindNames[:], "MessageKind")
}

// A role is what an opcode means to a flow.
type role struct {
	of          kind
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
var operations = [32]role{
	bth.OpSendFirst:                  {of: request, message: Send, begins: true},
	bth.OpSendMiddle:                 {of: request, message: Send},
	bth.OpSendLast:                   {of: request, message: Send, completes: true},
	bth.OpSendLastWithImmediate:      {of: request, message: Send, completes: true},
	bth.OpSendLastWithInvalidate:     {of: request, message: Send, completes: true},
	bth.OpSendOnly:                   {of: request, message: Send, begins: true, completes: true},
	bth.OpSendOnlyWithImmediate:      {of: request, message: Send, begins: true, completes: true},
	bth.OpSendOnlyWithInvalidate:     {of: request, message: Send, begins: true, completes: true},
	bth.OpRDMAWriteFirst:             {of: request, message: Write, begins: true},
	bth.OpRDMAWriteMiddle:            {of: request, message: Write},
	bth.OpRDMAWriteLast:              {of: request, message: Write, completes: true},
	bth.OpRDMAWriteLastWithImmediate: {of: request, message: Write, completes: true},
	bth.OpRDMAWriteOnly:              {of: request, message: Write, begins: true, completes: true},
	bth.OpRDMAWriteOnlyWithImmediate: {of: request, message: Write, begins: true, completes: true},
	bth.OpRDMAReadRequest:            {of: request, message: Read, begins: true, asks: true},
	bth.OpCmpSwap:                    {of: request, message: Atomic, begins: true, asks: true},
	bth.OpFetchAdd:                   {of: request, message: Atomic, begins: true, asks: true},
	bth.OpFlush:                      {of: request, message: Flush, begins: true, completes: true},
	bth.OpAtomicWrite:                {of: request, message: AtomicWrite, begins: true, completes: true},
	bth.OpResync:                     {of: request, message: noKind, begins: true}, // takes a PSN and is no message
	bth.OpRDMAReadResponseFirst:      {of: answer, message: Read, firstResponse: true},
	bth.OpRDMAReadResponseMiddle:     {of: answer, message: Read},
	bth.OpRDMAReadResponseLast:       {of: answer, message: Read, lastResponse: true},
	bth.OpRDMAReadResponseOnly:       {of: answer, message: Read, firstResponse: true, lastResponse: true},
	bth.OpAtomicAcknowledge:          {of: answer, message: Atomic},
	bth.OpAcknowledge:                {of: answer, message: noKind, begins: true, acknowledge: true},
}

// roles are those of all opcodes.
var roles = newRoles()

func newRoles() (all [256]role) {
	for i := range all {
		if op := bth.Opcode(i); op == bth.CNP {
			all[i].of = cnpKind
		} else if op.IsKnown() {
			r := operations[op.Operation()]
			r.ends = r.completes || r.asks || r.message == noKind
			all[i] = r
		}
	}
	return all
}

// management says whether a queue pair is one of the two that management uses.
func management(qp uint32) bool { return qp&maxQP <= 1 }

// sequenced says whether the PSNs of a flow follow one another: those of UD and
// of management mean nothing.
func sequenced(t bth.Transport, qp uint32) bool {
	return t != bth.TransportUD && !management(qp)
}
