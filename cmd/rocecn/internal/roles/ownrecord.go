package roles

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/ioam"
)

// ownRecord is the node's own record for the trace in a Fast CNP, with the keys of inspect's nodes. Absent values are
// recorded as unavailable.
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

// newNode returns the record with the fields that are known.
func (r *ownRecord) newNode() (*ioam.Node, error) {
	switch s := r.Snapshot; {
	case r.NodeID != nil && *r.NodeID > 1<<24-1:
		return nil, config.Wrong("own_record.node_id", "%d: want 24 bits at most", *r.NodeID)
	case r.WideNodeID != nil && *r.WideNodeID > 1<<56-1:
		return nil, config.Wrong("own_record.node_id_wide", "%d: want 56 bits at most", *r.WideNodeID)
	case s != nil && s.Schema > 1<<24-1:
		return nil, config.Wrong("own_record.snapshot.schema", "%d: want 24 bits at most", s.Schema)
	case s != nil && (len(s.Data)%4 != 0 || len(s.Data) > 1020):
		return nil, config.Wrong("own_record.snapshot.data", "%d octets: want a multiple of 4, up to 1020", len(s.Data))
	}
	n := &ioam.Node{}
	if r.HopLimit != nil || r.NodeID != nil {
		n.SetNode(valueOr(r.HopLimit, 1<<8-1), valueOr(r.NodeID, 1<<24-1))
	}
	setKnown(n.SetIngress, r.IngressIf)
	setKnown(n.SetEgress, r.EgressIf)
	setKnown(n.SetSeconds, r.Seconds)
	setKnown(n.SetFraction, r.Fraction)
	setKnown(n.SetTransitDelay, r.TransitDelay)
	setKnown(n.SetNamespaceData, r.NamespaceData)
	setKnown(n.SetQueueDepth, r.QueueDepth)
	setKnown(n.SetChecksumComplement, r.ChecksumComplement)
	if r.WideHopLimit != nil || r.WideNodeID != nil {
		n.SetWideNode(valueOr(r.WideHopLimit, 1<<8-1), valueOr(r.WideNodeID, 1<<56-1))
	}
	setKnown(n.SetWideIngress, r.WideIngressIf)
	setKnown(n.SetWideEgress, r.WideEgressIf)
	setKnown(n.SetWideNamespaceData, (*uint64)(r.WideNamespaceData))
	setKnown(n.SetBufferOccupancy, r.BufferOccupancy)
	if r.Snapshot != nil {
		n.SetSnapshot(ioam.Snapshot{SchemaID: r.Snapshot.Schema, Data: r.Snapshot.Data})
	}
	if n.Type() == 0 {
		return nil, config.Wrong("own_record", "no field: want at least one, as node_id")
	}
	return n, nil
}

// setKnown sets a field of a record if its value is known.
func setKnown[T any](setter func(T), known *T) {
	if known != nil {
		setter(*known)
	}
}

// valueOr returns the value if it is known, otherwise the one that stands for unavailable.
func valueOr[T any](known *T, unavailable T) T {
	if known != nil {
		return *known
	}
	return unavailable
}

// A number64 is a number, in JSON or as text: 7, "0x7".
type number64 uint64

func (n *number64) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 0, 64)
	if err != nil {
		return fmt.Errorf(`%q: want a whole number of 64 bits, as in 7 or "0x7"`, text)
	}
	*n = number64(v)
	return nil
}

// octets are text in hexadecimal digits.
type octets []byte

func (o *octets) UnmarshalText(text []byte) (err error) {
	if *o, err = hex.DecodeString(string(text)); err != nil {
		return fmt.Errorf("%q: want hexadecimal digits, two for each octet", text)
	}
	return nil
}
