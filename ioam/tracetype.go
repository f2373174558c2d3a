package ioam

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// TraceType is an IOAM-Trace-Type: the set of fields that each node of a trace
// records, 24 bits (RFC 9197 section 4.4.1). The fields are in the order of the
// bits.
type TraceType uint32

// The bits, with their values of [Node]. Each field takes 4 octets, the wide ones 8.
const (
	BitNode              TraceType = 0x800000 >> iota // bit 0: HopLimit, NodeID
	BitInterfaces                                     // bit 1: Ingress, Egress
	BitSeconds                                        // bit 2: Seconds
	BitFraction                                       // bit 3: Fraction
	BitTransitDelay                                   // bit 4: TransitDelay
	BitNamespaceData                                  // bit 5: NamespaceData
	BitQueueDepth                                     // bit 6: QueueDepth
	BitChecksum                                       // bit 7: ChecksumComplement
	BitWideNode                                       // bit 8: WideHopLimit, WideNodeID
	BitWideInterfaces                                 // bit 9: WideIngress, WideEgress
	BitWideNamespaceData                              // bit 10: WideNamespaceData
	BitBufferOccupancy                                // bit 11: BufferOccupancy
	BitUndefined                                      // bit 12: Undefined(12); bits 13 to 21 follow

	BitSnapshot TraceType = 0x000002 // bit 22: Snapshot, of variable length
	BitReserved TraceType = 0x000001 // bit 23: no field, zero on send, ignored on receipt
)

// UndefinedBits are bits 12 to 21. A node that does not know them records all ones.
const UndefinedBits TraceType = 0x000FFC

const (
	wideBits  = BitWideNode | BitWideInterfaces | BitWideNamespaceData
	countBits = 0xFFFFFF &^ (BitSnapshot | BitReserved) // bits that NodeLen counts
)

// Has reports whether all bits of bits are set in t.
func (t TraceType) Has(bits TraceType) bool { return t&bits == bits }

// NodeLen returns the length of each node in units of 4 octets, without the
// Opaque State Snapshot: 0 to 25.
func (t TraceType) NodeLen() int {
	return bits.OnesCount64(uint64(t&countBits) | uint64(t&wideBits)<<32) // wide fields count twice
}

var bitNames = [24]string{
	0: "node", 1: "interfaces", 2: "seconds", 3: "fraction", 4: "transit delay", 5: "namespace data",
	6: "queue depth", 7: "checksum complement", 8: "wide node", 9: "wide interfaces",
	10: "wide namespace data", 11: "buffer occupancy", 22: "snapshot", 23: "reserved",
}

// String returns the number and the names of the bits, as in
// "0xf20000 (node, interfaces, seconds, fraction, queue depth)".
func (t TraceType) String() string {
	var names []string
	for i := range 24 {
		if bit := BitNode >> i; t&bit != 0 {
			names = append(names, bit.bitName())
		}
	}
	s := fmt.Sprintf("0x%06x", uint32(t))
	if len(names) > 0 {
		s += " (" + strings.Join(names, ", ") + ")"
	}
	return s
}

// bitName returns the name of a single bit.
func (t TraceType) bitName() string {
	i := bits.LeadingZeros32(uint32(t)) - 8
	if bitNames[i] == "" {
		return "bit " + strconv.Itoa(i)
	}
	return bitNames[i]
}
