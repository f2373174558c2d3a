package ioam

import (
	"encoding/binary"
	"fmt"
	"strings"
)

var be = binary.BigEndian

// congestion is the trace type for congestion control: node, interfaces, time and queue depth.
const congestion = BitNode | BitInterfaces | BitSeconds | BitFraction | BitQueueDepth

// Values of unavailable fields: all ones (RFC 9197 section 4.4.2). In a field with two parts one part may be
// available.
const (
	noHopLimit  = 0xFF // only if the node_id is unavailable as well; otherwise it is hop limit 255
	noNodeID    = 0xFFFFFF
	noInterface = 0xFFFF
	noValue     = 0xFFFFFFFF // for all fields of 32 bits, including the wide interfaces

	noWideNodeID = 0xFFFFFFFFFFFFFF
	noWideValue  = 0xFFFFFFFFFFFFFFFF

	noSchema = 0xFFFFFF // SchemaID of a snapshot without data
)

// DelayOverflow is the value of a transit delay of more than 2^31−1 nanoseconds (RFC 9197 section 4.4.2.5).
const DelayOverflow = 0x80000000

// Node is the record of one node in a trace (RFC 9197 section 4.4.2). In the packet the newest node is first.
//
// A record has the fields of the trace's type. A node that does not know a value writes all ones. Each method that
// reads a value therefore also reports whether it is available; if not, the value is 0. The Set methods build a record
// for [AddNode], which writes all ones for fields that are not set. The zero Node has no fields.
type Node struct {
	typ TraceType

	hopLimit           uint8
	nodeID             uint32 // 24 bits
	ingress            uint16
	egress             uint16
	seconds            uint32
	fraction           uint32
	transitDelay       uint32
	namespaceData      uint32
	queueDepth         uint32
	checksumComplement uint32

	wideHopLimit      uint8
	wideNodeID        uint64 // 56 bits
	wideIngress       uint32
	wideEgress        uint32
	wideNamespaceData uint64
	bufferOccupancy   uint32

	undefined [10]uint32 // bits 12 to 21
	snapshot  Snapshot
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
// Length is the length of the data in units of 4 octets.
type Snapshot struct {
	SchemaID uint32 // 24 bits
	Data     []byte // a multiple of 4 octets, up to 1020; aliases the packet after decoding
}

// String returns the fields of the record, as in "node 0xd4 at hop limit 61, queue
// depth unavailable".
func (n Node) String() string {
	var fields []string
	available := n.availableFields()
	field := func(bit TraceType, format string, values ...any) {
		if available.Has(bit) {
			fields = append(fields, bit.bitName()+" "+fmt.Sprintf(format, values...))
		} else if n.typ.Has(bit) {
			fields = append(fields, bit.bitName()+" unavailable")
		}
	}
	field(BitNode, "%#x at hop limit %d", n.nodeID, n.hopLimit)
	field(BitInterfaces, "%d to %d", n.ingress, n.egress)
	field(BitSeconds, "%d", n.seconds)
	field(BitFraction, "%d", n.fraction)
	field(BitTransitDelay, "%d", n.transitDelay)
	field(BitNamespaceData, "%#x", n.namespaceData)
	field(BitQueueDepth, "%d", n.queueDepth)
	field(BitChecksum, "%#x", n.checksumComplement)
	field(BitWideNode, "%#x at hop limit %d", n.wideNodeID, n.wideHopLimit)
	field(BitWideInterfaces, "%d to %d", n.wideIngress, n.wideEgress)
	field(BitWideNamespaceData, "%#x", n.wideNamespaceData)
	field(BitBufferOccupancy, "%d", n.bufferOccupancy)
	for i, w := range n.undefined {
		field(BitUndefined>>i, "%#x", w)
	}
	field(BitSnapshot, "of schema %d: %x", n.snapshot.SchemaID, n.snapshot.Data)
	return strings.Join(fields, ", ")
}

// AppendBinary appends the record as it is in a trace of n.Type().
func (n *Node) AppendBinary(b []byte) ([]byte, error) {
	if err := n.checkFields(); err != nil {
		return b, err
	}
	return n.appendFields(b, n.typ), nil
}

// checkFields returns the error of the first value that does not fit its field.
func (n *Node) checkFields() error {
	switch {
	case n.typ > 0xFFFFFF:
		return errTraceTypeRange
	case n.nodeID > noNodeID, n.wideNodeID > noWideNodeID:
		return errNodeIDRange
	case n.snapshot.SchemaID > noSchema:
		return errSchemaIDRange
	case len(n.snapshot.Data)%4 != 0, len(n.snapshot.Data) > 4*255:
		return errSnapshotLen
	}
	return nil
}

// appendFields appends the fields of t. It appends fields that n does not have as unavailable.
func (n *Node) appendFields(b []byte, t TraceType) []byte {
	word := func(bit TraceType, w uint32) {
		if n.typ&bit == 0 {
			w = noValue
		}
		if t&bit != 0 {
			b = be.AppendUint32(b, w)
		}
	}
	wide := func(bit TraceType, high, low uint32) {
		word(bit, high)
		word(bit, low)
	}
	word(BitNode, uint32(n.hopLimit)<<24|n.nodeID)
	word(BitInterfaces, uint32(n.ingress)<<16|uint32(n.egress))
	word(BitSeconds, n.seconds)
	word(BitFraction, n.fraction)
	word(BitTransitDelay, n.transitDelay)
	word(BitNamespaceData, n.namespaceData)
	word(BitQueueDepth, n.queueDepth)
	word(BitChecksum, n.checksumComplement)
	wide(BitWideNode, uint32(n.wideHopLimit)<<24|uint32(n.wideNodeID>>32), uint32(n.wideNodeID))
	wide(BitWideInterfaces, n.wideIngress, n.wideEgress)
	wide(BitWideNamespaceData, uint32(n.wideNamespaceData>>32), uint32(n.wideNamespaceData))
	word(BitBufferOccupancy, n.bufferOccupancy)
	for i, w := range n.undefined {
		word(BitUndefined>>i, w)
	}
	if t&BitSnapshot != 0 {
		s := n.snapshot
		if n.typ&BitSnapshot == 0 {
			s = Snapshot{SchemaID: noSchema}
		}
		b = be.AppendUint32(b, uint32(len(s.Data)/4)<<24|s.SchemaID)
		b = append(b, s.Data...)
	}
	return b
}

// readFields reads the fields of t from the start of b and returns the octets after them. It leaves other fields
// alone and sets fields after the end of b to zero.
func (n *Node) readFields(b []byte, t TraceType) (rest []byte) {
	n.typ = t
	if t == congestion && len(b) >= 20 { // faster than the general code below
		n.readNode(be.Uint32(b))
		n.readInterfaces(be.Uint32(b[4:]))
		n.seconds = be.Uint32(b[8:])
		n.fraction = be.Uint32(b[12:])
		n.queueDepth = be.Uint32(b[16:])
		return b[20:]
	}
	var w uint32
	if t&BitNode != 0 {
		w, b = readWord(b)
		n.readNode(w)
	}
	if t&BitInterfaces != 0 {
		w, b = readWord(b)
		n.readInterfaces(w)
	}
	if t&BitSeconds != 0 {
		n.seconds, b = readWord(b)
	}
	if t&BitFraction != 0 {
		n.fraction, b = readWord(b)
	}
	if t&BitTransitDelay != 0 {
		n.transitDelay, b = readWord(b)
	}
	if t&BitNamespaceData != 0 {
		n.namespaceData, b = readWord(b)
	}
	if t&BitQueueDepth != 0 {
		n.queueDepth, b = readWord(b)
	}
	if t&BitChecksum != 0 {
		n.checksumComplement, b = readWord(b)
	}
	if t&0xFFFF == 0 {
		return b
	}
	return n.readHighFields(b, t)
}

// readHighFields reads the fields of bits 8 to 22.
func (n *Node) readHighFields(b []byte, t TraceType) (rest []byte) {
	var w uint32
	if t&BitWideNode != 0 {
		w, b = readWord(b)
		n.wideHopLimit, n.wideNodeID = uint8(w>>24), uint64(w&0xFFFFFF)<<32
		w, b = readWord(b)
		n.wideNodeID |= uint64(w)
	}
	if t&BitWideInterfaces != 0 {
		n.wideIngress, b = readWord(b)
		n.wideEgress, b = readWord(b)
	}
	if t&BitWideNamespaceData != 0 {
		w, b = readWord(b)
		n.wideNamespaceData = uint64(w) << 32
		w, b = readWord(b)
		n.wideNamespaceData |= uint64(w)
	}
	if t&BitBufferOccupancy != 0 {
		n.bufferOccupancy, b = readWord(b)
	}
	if t&UndefinedBits != 0 {
		for i := range n.undefined {
			if t&(BitUndefined>>i) != 0 {
				n.undefined[i], b = readWord(b)
			}
		}
	}
	if t&BitSnapshot != 0 {
		w, b = readWord(b)
		end := min(4*int(w>>24), len(b))
		n.snapshot = Snapshot{SchemaID: w & 0xFFFFFF, Data: b[:end:end]}
		b = b[end:]
	}
	return b
}

func (n *Node) readNode(w uint32)       { n.hopLimit, n.nodeID = uint8(w>>24), w&0xFFFFFF }
func (n *Node) readInterfaces(w uint32) { n.ingress, n.egress = uint16(w>>16), uint16(w) }

// readWord returns the first four octets of b as a number, and the rest: 0 and nil if b is shorter.
func readWord(b []byte) (w uint32, rest []byte) {
	if len(b) < 4 {
		return 0, nil
	}
	return be.Uint32(b), b[4:]
}
