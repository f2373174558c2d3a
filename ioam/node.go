package ioam

import (
	"encoding/binary"
	"fmt"
	"strings"
)

var be = binary.BigEndian

// congestion is the type that congestion control asks for: where, when and how
// long the queue was.
const congestion = BitNode | BitInterfaces | BitSeconds | BitFraction | BitQueueDepth

// What fields hold that a node could not fill: all ones (RFC 9197
// section 4.4.2). A field of 4 or 8 octets with two parts can have one known
// part.
const (
	NoHopLimit  = 0xFF // only when the node_id beside it is unavailable too; else it is hop limit 255
	NoNodeID    = 0xFFFFFF
	NoInterface = 0xFFFF
	NoValue     = 0xFFFFFFFF // every field of 32 bits, WideIngress and WideEgress among them

	NoWideNodeID = 0xFFFFFFFFFFFFFF
	NoWideValue  = 0xFFFFFFFFFFFFFFFF

	NoSchema = 0xFFFFFF // SchemaID of a snapshot without data
)

// DelayOverflow is the bit of TransitDelay that says that the delay was over
// 2^31−1 nanoseconds; the other bits are zero then (RFC 9197 section 4.4.2.5).
const DelayOverflow = 0x80000000

// Node is what one node recorded in a trace, newest node first in the packet
// (RFC 9197 section 4.4.2). Only the fields whose bit is set in Type are there;
// [Node.Available] says which of them hold a value. Numbers are those on the
// wire.
type Node struct {
	Type TraceType

	HopLimit           uint8  // bit 0: hop limit when sent on
	NodeID             uint32 // bit 0: 24 bits
	Ingress            uint16 // bit 1: interface that received the packet
	Egress             uint16 // bit 1: interface that sent it
	Seconds            uint32 // bit 2: time of arrival, see [Node.Time]
	Fraction           uint32 // bit 3: its unit depends on the format
	TransitDelay       uint32 // bit 4: nanoseconds, or [DelayOverflow]
	NamespaceData      uint32 // bit 5: what the namespace defines
	QueueDepth         uint32 // bit 6: buffers in the egress queue; Linux writes octets
	ChecksumComplement uint32 // bit 7

	WideHopLimit      uint8  // bit 8: as HopLimit
	WideNodeID        uint64 // bit 8: 56 bits
	WideIngress       uint32 // bit 9
	WideEgress        uint32 // bit 9
	WideNamespaceData uint64 // bit 10
	BufferOccupancy   uint32 // bit 11: of the shared buffer pool, in units of the node's own

	Undefined [10]uint32 // bits 12 to 21
	Snapshot  Snapshot   // bit 22
}

// Snapshot is an Opaque State Snapshot (RFC 9197 section 4.4.2.13).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Length      |                     Schema ID                 |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~                          Opaque data                          ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Length counts the data in units of 4 octets.
type Snapshot struct {
	SchemaID uint32 // 24 bits
	Data     []byte // a multiple of 4 octets, up to 1020; aliases the packet
}

// ID returns who the node is, the short identifier where it has both, and whether
// it says so.
func (n *Node) ID() (id uint64, known bool) {
	switch {
	case n.Type.Has(BitNode) && n.NodeID != NoNodeID:
		return uint64(n.NodeID), true
	case n.Type.Has(BitWideNode) && n.WideNodeID != NoWideNodeID:
		return n.WideNodeID, true
	}
	return 0, false
}

// Available returns the bits of the fields that are there and hold a value:
// not all ones or, for a snapshot, a schema. Where a field has two parts, one
// of them may still be unavailable.
func (n *Node) Available() TraceType {
	t := n.Type &^ BitReserved
	without := func(bit TraceType, unavailable bool) {
		if unavailable {
			t &^= bit
		}
	}
	without(BitNode, n.HopLimit == NoHopLimit && n.NodeID == NoNodeID)
	without(BitInterfaces, n.Ingress == NoInterface && n.Egress == NoInterface)
	without(BitSeconds, n.Seconds == NoValue)
	without(BitFraction, n.Fraction == NoValue)
	without(BitTransitDelay, n.TransitDelay == NoValue)
	without(BitNamespaceData, n.NamespaceData == NoValue)
	without(BitQueueDepth, n.QueueDepth == NoValue)
	without(BitChecksum, n.ChecksumComplement == NoValue)
	without(BitWideNode, n.WideHopLimit == NoHopLimit && n.WideNodeID == NoWideNodeID)
	without(BitWideInterfaces, n.WideIngress == NoValue && n.WideEgress == NoValue)
	without(BitWideNamespaceData, n.WideNamespaceData == NoWideValue)
	without(BitBufferOccupancy, n.BufferOccupancy == NoValue)
	for i, word := range n.Undefined {
		without(BitUndefined>>i, word == NoValue)
	}
	without(BitSnapshot, n.Snapshot.SchemaID == NoSchema && len(n.Snapshot.Data) == 0)
	return t
}

// String returns the fields that are there, as in "node 0xd4 at hop limit 61,
// queue depth unavailable".
func (n Node) String() string {
	var fields []string
	available := n.Available()
	field := func(bit TraceType, format string, values ...any) {
		if available.Has(bit) {
			fields = append(fields, bit.name()+" "+fmt.Sprintf(format, values...))
		} else if n.Type.Has(bit) {
			fields = append(fields, bit.name()+" unavailable")
		}
	}
	field(BitNode, "%#x at hop limit %d", n.NodeID, n.HopLimit)
	field(BitInterfaces, "%d to %d", n.Ingress, n.Egress)
	field(BitSeconds, "%d", n.Seconds)
	field(BitFraction, "%d", n.Fraction)
	field(BitTransitDelay, "%d", n.TransitDelay)
	field(BitNamespaceData, "%#x", n.NamespaceData)
	field(BitQueueDepth, "%d", n.QueueDepth)
	field(BitChecksum, "%#x", n.ChecksumComplement)
	field(BitWideNode, "%#x at hop limit %d", n.WideNodeID, n.WideHopLimit)
	field(BitWideInterfaces, "%d to %d", n.WideIngress, n.WideEgress)
	field(BitWideNamespaceData, "%#x", n.WideNamespaceData)
	field(BitBufferOccupancy, "%d", n.BufferOccupancy)
	for i, w := range n.Undefined {
		field(BitUndefined>>i, "%#x", w)
	}
	field(BitSnapshot, "of schema %d: %x", n.Snapshot.SchemaID, n.Snapshot.Data)
	return strings.Join(fields, ", ")
}

// AppendBinary appends the fields that n.Type names, as they stand in a trace
// of that type.
func (n *Node) AppendBinary(b []byte) ([]byte, error) {
	if err := n.check(); err != nil {
		return b, err
	}
	return n.append(b, n.Type), nil
}

// check returns the first value that does not fit its field.
func (n *Node) check() error {
	switch {
	case n.Type > 0xFFFFFF:
		return errTraceTypeRange
	case n.NodeID > NoNodeID, n.WideNodeID > NoWideNodeID:
		return errNodeIDRange
	case n.Snapshot.SchemaID > NoSchema:
		return errSchemaIDRange
	case len(n.Snapshot.Data)%4 != 0, len(n.Snapshot.Data) > 4*255:
		return errSnapshotLen
	}
	return nil
}

// append appends the fields that t names, those that n does not have as
// unavailable.
func (n *Node) append(b []byte, t TraceType) []byte {
	word := func(bit TraceType, w uint32) {
		if n.Type&bit == 0 {
			w = NoValue
		}
		if t&bit != 0 {
			b = be.AppendUint32(b, w)
		}
	}
	wide := func(bit TraceType, high, low uint32) {
		word(bit, high)
		word(bit, low)
	}
	word(BitNode, uint32(n.HopLimit)<<24|n.NodeID)
	word(BitInterfaces, uint32(n.Ingress)<<16|uint32(n.Egress))
	word(BitSeconds, n.Seconds)
	word(BitFraction, n.Fraction)
	word(BitTransitDelay, n.TransitDelay)
	word(BitNamespaceData, n.NamespaceData)
	word(BitQueueDepth, n.QueueDepth)
	word(BitChecksum, n.ChecksumComplement)
	wide(BitWideNode, uint32(n.WideHopLimit)<<24|uint32(n.WideNodeID>>32), uint32(n.WideNodeID))
	wide(BitWideInterfaces, n.WideIngress, n.WideEgress)
	wide(BitWideNamespaceData, uint32(n.WideNamespaceData>>32), uint32(n.WideNamespaceData))
	word(BitBufferOccupancy, n.BufferOccupancy)
	for i, w := range n.Undefined {
		word(BitUndefined>>i, w)
	}
	if t&BitSnapshot != 0 {
		s := n.Snapshot
		if n.Type&BitSnapshot == 0 {
			s = Snapshot{SchemaID: NoSchema}
		}
		b = be.AppendUint32(b, uint32(len(s.Data)/4)<<24|s.SchemaID)
		b = append(b, s.Data...)
	}
	return b
}

// set reads the fields that t names from the start of b and returns the octets
// behind them. Other fields stay as they are; fields behind the end of b become
// zero.
func (n *Node) set(b []byte, t TraceType) (rest []byte) {
	n.Type = t
	if t == congestion && len(b) >= 20 { // what follows does the same, slower
		n.setNode(be.Uint32(b))
		n.setInterfaces(be.Uint32(b[4:]))
		n.Seconds = be.Uint32(b[8:])
		n.Fraction = be.Uint32(b[12:])
		n.QueueDepth = be.Uint32(b[16:])
		return b[20:]
	}
	var w uint32
	if t&BitNode != 0 {
		w, b = word(b)
		n.setNode(w)
	}
	if t&BitInterfaces != 0 {
		w, b = word(b)
		n.setInterfaces(w)
	}
	if t&BitSeconds != 0 {
		n.Seconds, b = word(b)
	}
	if t&BitFraction != 0 {
		n.Fraction, b = word(b)
	}
	if t&BitTransitDelay != 0 {
		n.TransitDelay, b = word(b)
	}
	if t&BitNamespaceData != 0 {
		n.NamespaceData, b = word(b)
	}
	if t&BitQueueDepth != 0 {
		n.QueueDepth, b = word(b)
	}
	if t&BitChecksum != 0 {
		n.ChecksumComplement, b = word(b)
	}
	if t&0xFFFF == 0 {
		return b
	}
	return n.setHigh(b, t)
}

// setHigh is set for bits 8 to 22.
func (n *Node) setHigh(b []byte, t TraceType) (rest []byte) {
	var w uint32
	if t&BitWideNode != 0 {
		w, b = word(b)
		n.WideHopLimit, n.WideNodeID = uint8(w>>24), uint64(w&0xFFFFFF)<<32
		w, b = word(b)
		n.WideNodeID |= uint64(w)
	}
	if t&BitWideInterfaces != 0 {
		n.WideIngress, b = word(b)
		n.WideEgress, b = word(b)
	}
	if t&BitWideNamespaceData != 0 {
		w, b = word(b)
		n.WideNamespaceData = uint64(w) << 32
		w, b = word(b)
		n.WideNamespaceData |= uint64(w)
	}
	if t&BitBufferOccupancy != 0 {
		n.BufferOccupancy, b = word(b)
	}
	if t&UndefinedBits != 0 {
		for i := range n.Undefined {
			if t&(BitUndefined>>i) != 0 {
				n.Undefined[i], b = word(b)
			}
		}
	}
	if t&BitSnapshot != 0 {
		w, b = word(b)
		end := min(4*int(w>>24), len(b))
		n.Snapshot = Snapshot{SchemaID: w & 0xFFFFFF, Data: b[:end:end]}
		b = b[end:]
	}
	return b
}

func (n *Node) setNode(w uint32)       { n.HopLimit, n.NodeID = uint8(w>>24), w&0xFFFFFF }
func (n *Node) setInterfaces(w uint32) { n.Ingress, n.Egress = uint16(w>>16), uint16(w) }

// word takes four octets off the start of b.
func word(b []byte) (w uint32, rest []byte) {
	if len(b) < 4 {
		return 0, nil
	}
	return be.Uint32(b), b[4:]
}
