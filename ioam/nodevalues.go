package ioam

// Type returns the fields of the record, with or without a value.
func (n *Node) Type() TraceType { return n.typ }

// HopLimit returns the hop limit of the packet when it left the node (bit 0).
func (n *Node) HopLimit() (limit uint8, ok bool) {
	return valueIf(n.hopLimit, n.typ.Has(BitNode) && (n.hopLimit != noHopLimit || n.nodeID != noNodeID))
}

// NodeID returns the identifier of the node: 24 bits (bit 0).
func (n *Node) NodeID() (id uint32, ok bool) {
	return valueIf(n.nodeID, n.typ.Has(BitNode) && n.nodeID != noNodeID)
}

// SetNode sets the hop limit and the identifier of 24 bits (bit 0).
func (n *Node) SetNode(hopLimit uint8, id uint32) {
	n.typ |= BitNode
	n.hopLimit, n.nodeID = hopLimit, id
}

// Ingress returns the interface that received the packet (bit 1).
func (n *Node) Ingress() (id uint16, ok bool) {
	return valueIf(n.ingress, n.typ.Has(BitInterfaces) && n.ingress != noInterface)
}

// Egress returns the interface that sent the packet (bit 1).
func (n *Node) Egress() (id uint16, ok bool) {
	return valueIf(n.egress, n.typ.Has(BitInterfaces) && n.egress != noInterface)
}

// SetIngress sets the interface that received the packet (bit 1).
func (n *Node) SetIngress(id uint16) {
	n.addInterfaces()
	n.ingress = id
}

// SetEgress sets the interface that sends the packet (bit 1).
func (n *Node) SetEgress(id uint16) {
	n.addInterfaces()
	n.egress = id
}

// addInterfaces makes the interfaces a field of the record.
func (n *Node) addInterfaces() {
	if n.typ&BitInterfaces == 0 {
		n.typ |= BitInterfaces
		n.ingress, n.egress = noInterface, noInterface
	}
}

// Seconds returns the seconds of the time of arrival (bit 2), see [Node.Time].
func (n *Node) Seconds() (s uint32, ok bool) {
	return valueIf(n.seconds, n.typ.Has(BitSeconds) && n.seconds != noValue)
}

// SetSeconds sets the seconds of the time of arrival (bit 2).
func (n *Node) SetSeconds(s uint32) { n.typ, n.seconds = n.typ|BitSeconds, s }

// Fraction returns the fraction of a second of the time of arrival (bit 3). Its unit depends on the [TimeFormat].
func (n *Node) Fraction() (f uint32, ok bool) {
	return valueIf(n.fraction, n.typ.Has(BitFraction) && n.fraction != noValue)
}

// SetFraction sets the fraction of a second of the time of arrival (bit 3) in the unit of the [TimeFormat].
func (n *Node) SetFraction(f uint32) { n.typ, n.fraction = n.typ|BitFraction, f }

// TransitDelay returns the time in the node in nanoseconds, or [DelayOverflow] (bit 4).
func (n *Node) TransitDelay() (ns uint32, ok bool) {
	return valueIf(n.transitDelay, n.typ.Has(BitTransitDelay) && n.transitDelay != noValue)
}

// SetTransitDelay sets the time in the node in nanoseconds, or [DelayOverflow] (bit 4).
func (n *Node) SetTransitDelay(ns uint32) { n.typ, n.transitDelay = n.typ|BitTransitDelay, ns }

// NamespaceData returns the data that the namespace defines (bit 5).
func (n *Node) NamespaceData() (data uint32, ok bool) {
	return valueIf(n.namespaceData, n.typ.Has(BitNamespaceData) && n.namespaceData != noValue)
}

// SetNamespaceData sets the data that the namespace defines (bit 5).
func (n *Node) SetNamespaceData(data uint32) { n.typ, n.namespaceData = n.typ|BitNamespaceData, data }

// QueueDepth returns the number of buffers in the egress queue (bit 6); Linux writes octets.
func (n *Node) QueueDepth() (depth uint32, ok bool) {
	return valueIf(n.queueDepth, n.typ.Has(BitQueueDepth) && n.queueDepth != noValue)
}

// SetQueueDepth sets the number of buffers in the egress queue (bit 6).
func (n *Node) SetQueueDepth(depth uint32) { n.typ, n.queueDepth = n.typ|BitQueueDepth, depth }

// ChecksumComplement returns the checksum complement (bit 7).
func (n *Node) ChecksumComplement() (c uint32, ok bool) {
	return valueIf(n.checksumComplement, n.typ.Has(BitChecksum) && n.checksumComplement != noValue)
}

// SetChecksumComplement sets the checksum complement (bit 7).
func (n *Node) SetChecksumComplement(c uint32) { n.typ, n.checksumComplement = n.typ|BitChecksum, c }

// WideHopLimit returns the hop limit that is recorded with the wide identifier, as [Node.HopLimit] does (bit 8).
func (n *Node) WideHopLimit() (limit uint8, ok bool) {
	return valueIf(n.wideHopLimit,
		n.typ.Has(BitWideNode) && (n.wideHopLimit != noHopLimit || n.wideNodeID != noWideNodeID))
}

// WideNodeID returns the wide identifier of the node: 56 bits (bit 8).
func (n *Node) WideNodeID() (id uint64, ok bool) {
	return valueIf(n.wideNodeID, n.typ.Has(BitWideNode) && n.wideNodeID != noWideNodeID)
}

// SetWideNode sets the hop limit and the identifier of 56 bits (bit 8).
func (n *Node) SetWideNode(hopLimit uint8, id uint64) {
	n.typ |= BitWideNode
	n.wideHopLimit, n.wideNodeID = hopLimit, id
}

// WideIngress returns the interface that received the packet, in wide format (bit 9).
func (n *Node) WideIngress() (id uint32, ok bool) {
	return valueIf(n.wideIngress, n.typ.Has(BitWideInterfaces) && n.wideIngress != noValue)
}

// WideEgress returns the interface that sent the packet, in wide format (bit 9).
func (n *Node) WideEgress() (id uint32, ok bool) {
	return valueIf(n.wideEgress, n.typ.Has(BitWideInterfaces) && n.wideEgress != noValue)
}

// SetWideIngress sets the interface that received the packet, in wide format (bit 9).
func (n *Node) SetWideIngress(id uint32) {
	n.addWideInterfaces()
	n.wideIngress = id
}

// SetWideEgress sets the interface that sends the packet, in wide format (bit 9).
func (n *Node) SetWideEgress(id uint32) {
	n.addWideInterfaces()
	n.wideEgress = id
}

// addWideInterfaces makes the wide interfaces a field of the record.
func (n *Node) addWideInterfaces() {
	if n.typ&BitWideInterfaces == 0 {
		n.typ |= BitWideInterfaces
		n.wideIngress, n.wideEgress = noValue, noValue
	}
}

// WideNamespaceData returns the data that the namespace defines, in wide format (bit 10).
func (n *Node) WideNamespaceData() (data uint64, ok bool) {
	return valueIf(n.wideNamespaceData, n.typ.Has(BitWideNamespaceData) && n.wideNamespaceData != noWideValue)
}

// SetWideNamespaceData sets the data that the namespace defines, in wide format (bit 10).
func (n *Node) SetWideNamespaceData(data uint64) {
	n.typ, n.wideNamespaceData = n.typ|BitWideNamespaceData, data
}

// BufferOccupancy returns the occupancy of the shared buffer pool in a unit of the node's choice (bit 11).
func (n *Node) BufferOccupancy() (occupancy uint32, ok bool) {
	return valueIf(n.bufferOccupancy, n.typ.Has(BitBufferOccupancy) && n.bufferOccupancy != noValue)
}

// SetBufferOccupancy sets the occupancy of the shared buffer pool in a unit of the node's choice (bit 11).
func (n *Node) SetBufferOccupancy(occupancy uint32) {
	n.typ, n.bufferOccupancy = n.typ|BitBufferOccupancy, occupancy
}

// Undefined returns the word of one of the undefined bits 12 to 21; ok is false for other bits.
func (n *Node) Undefined(bit int) (word uint32, ok bool) {
	i := bit - 12
	if i < 0 || i >= len(n.undefined) {
		return 0, false
	}
	return valueIf(n.undefined[i], n.typ.Has(BitUndefined>>i) && n.undefined[i] != noValue)
}

// Snapshot returns the Opaque State Snapshot (bit 22). Its Data aliases the trace.
func (n *Node) Snapshot() (s Snapshot, ok bool) {
	return valueIf(n.snapshot, n.typ.Has(BitSnapshot) && (n.snapshot.SchemaID != noSchema || len(n.snapshot.Data) > 0))
}

// SetSnapshot sets the Opaque State Snapshot (bit 22). The node keeps s.Data.
func (n *Node) SetSnapshot(s Snapshot) { n.typ, n.snapshot = n.typ|BitSnapshot, s }

// ID returns the identifier of the node: [Node.NodeID], or else [Node.WideNodeID].
func (n *Node) ID() (id uint64, ok bool) {
	if short, ok := n.NodeID(); ok {
		return uint64(short), true
	}
	return n.WideNodeID()
}

// availableFields returns the bits of the fields with a value. One part of a field with two parts may be unavailable.
func (n *Node) availableFields() TraceType {
	t := n.typ &^ BitReserved
	without := func(bit TraceType, unavailable bool) {
		if unavailable {
			t &^= bit
		}
	}
	without(BitNode, n.hopLimit == noHopLimit && n.nodeID == noNodeID)
	without(BitInterfaces, n.ingress == noInterface && n.egress == noInterface)
	without(BitSeconds, n.seconds == noValue)
	without(BitFraction, n.fraction == noValue)
	without(BitTransitDelay, n.transitDelay == noValue)
	without(BitNamespaceData, n.namespaceData == noValue)
	without(BitQueueDepth, n.queueDepth == noValue)
	without(BitChecksum, n.checksumComplement == noValue)
	without(BitWideNode, n.wideHopLimit == noHopLimit && n.wideNodeID == noWideNodeID)
	without(BitWideInterfaces, n.wideIngress == noValue && n.wideEgress == noValue)
	without(BitWideNamespaceData, n.wideNamespaceData == noWideValue)
	without(BitBufferOccupancy, n.bufferOccupancy == noValue)
	for i, word := range n.undefined {
		without(BitUndefined>>i, word == noValue)
	}
	without(BitSnapshot, n.snapshot.SchemaID == noSchema && len(n.snapshot.Data) == 0)
	return t
}

// valueIf returns value if it is available, otherwise the zero value, and available.
func valueIf[T any](value T, available bool) (T, bool) {
	if !available {
		var none T
		return none, false
	}
	return value, true
}
