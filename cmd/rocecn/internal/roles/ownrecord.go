package roles

import (
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/ioam"
)

// ownRecord is the node's own record for the trace in a Fast CNP, in the words
// of inspect's nodes. What is absent is recorded as unavailable.
type ownRecord struct {
	HopLimit           *uint8       `json:"hop_limit"`
	NodeID             *uint32      `json:"node_id"`
	IngressIf          *uint16      `json:"ingress_if"`
	EgressIf           *uint16      `json:"egress_if"`
	Seconds            *uint32      `json:"ts_sec"`
	Fraction           *uint32      `json:"ts_frac"`
	TransitDelay       *uint32      `json:"transit_delay"`
	NamespaceData      *uint32      `json:"ns_data"`
	QueueDepth         *uint32      `json:"queue_depth"`
	ChecksumComplement *uint32      `json:"checksum_complement"`
	WideHopLimit       *uint8       `json:"hop_limit_wide"`
	WideNodeID         *uint64      `json:"node_id_wide"`
	WideIngressIf      *uint32      `json:"ingress_if_wide"`
	WideEgressIf       *uint32      `json:"egress_if_wide"`
	WideNamespaceData  *number64    `json:"ns_data_wide"`
	BufferOccupancy    *uint32      `json:"buffer_occupancy"`
	Snapshot           *ownSnapshot `json:"snapshot"`
}

// ownSnapshot is an Opaque State Snapshot.
type ownSnapshot struct {
	Schema uint32 `json:"schema"`
	Data   octets `json:"data"`
}

// node returns the record, whose Type has the fields that are known.
func (r *ownRecord) node() (*ioam.Node, error) {
	switch s := r.Snapshot; {
	case r.NodeID != nil && *r.NodeID > ioam.NoNodeID:
		return nil, config.Wrong("own_record.node_id", "%d has more than 24 bits", *r.NodeID)
	case r.WideNodeID != nil && *r.WideNodeID > ioam.NoWideNodeID:
		return nil, config.Wrong("own_record.node_id_wide", "%d has more than 56 bits", *r.WideNodeID)
	case s != nil && s.Schema > ioam.NoSchema:
		return nil, config.Wrong("own_record.snapshot.schema", "%d has more than 24 bits", s.Schema)
	case s != nil && (len(s.Data)%4 != 0 || len(s.Data) > 1020):
		return nil, config.Wrong("own_record.snapshot.data", "a multiple of 4 octets up to 1020 needed")
	}
	n := &ioam.Node{}
	record(n, ioam.BitNode, &n.HopLimit, r.HopLimit, ioam.NoHopLimit)
	record(n, ioam.BitNode, &n.NodeID, r.NodeID, ioam.NoNodeID)
	record(n, ioam.BitInterfaces, &n.Ingress, r.IngressIf, ioam.NoInterface)
	record(n, ioam.BitInterfaces, &n.Egress, r.EgressIf, ioam.NoInterface)
	record(n, ioam.BitSeconds, &n.Seconds, r.Seconds, ioam.NoValue)
	record(n, ioam.BitFraction, &n.Fraction, r.Fraction, ioam.NoValue)
	record(n, ioam.BitTransitDelay, &n.TransitDelay, r.TransitDelay, ioam.NoValue)
	record(n, ioam.BitNamespaceData, &n.NamespaceData, r.NamespaceData, ioam.NoValue)
	record(n, ioam.BitQueueDepth, &n.QueueDepth, r.QueueDepth, ioam.NoValue)
	record(n, ioam.BitChecksum, &n.ChecksumComplement, r.ChecksumComplement, ioam.NoValue)
	record(n, ioam.BitWideNode, &n.WideHopLimit, r.WideHopLimit, ioam.NoHopLimit)
	record(n, ioam.BitWideNode, &n.WideNodeID, r.WideNodeID, ioam.NoWideNodeID)
	record(n, ioam.BitWideInterfaces, &n.WideIngress, r.WideIngressIf, ioam.NoValue)
	record(n, ioam.BitWideInterfaces, &n.WideEgress, r.WideEgressIf, ioam.NoValue)
	record(n, ioam.BitWideNamespaceData, &n.WideNamespaceData, (*uint64)(r.WideNamespaceData), ioam.NoWideValue)
	record(n, ioam.BitBufferOccupancy, &n.BufferOccupancy, r.BufferOccupancy, ioam.NoValue)
	if r.Snapshot != nil {
		n.Type |= ioam.BitSnapshot
		n.Snapshot = ioam.Snapshot{SchemaID: r.Snapshot.Schema, Data: r.Snapshot.Data}
	}
	return n, nil
}

// record sets a field of a node: to what is known or, where that is nothing, to
// the value that says so. The field's bit is set when something of it is known.
func record[T any](n *ioam.Node, bit ioam.TraceType, to, known *T, unavailable T) {
	*to = unavailable
	if known != nil {
		*to = *known
		n.Type |= bit
	}
}

// A number64 is a number, in JSON or as text: 7, "0x7".
type number64 uint64

func (n *number64) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 0, 64)
	if err != nil {
		return errors.New(`a whole number of 64 bits needed, as in 7 or "0x7"`)
	}
	*n = number64(v)
	return nil
}

// octets are text in hexadecimal digits.
type octets []byte

func (o *octets) UnmarshalText(text []byte) (err error) {
	if *o, err = hex.DecodeString(string(text)); err != nil {
		return errors.New("hexadecimal digits needed, two an octet")
	}
	return nil
}
