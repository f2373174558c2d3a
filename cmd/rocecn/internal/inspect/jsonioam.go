package inspect

import (
	"encoding/hex"

	"github.com/rocecn/rocecn/ioam"
)

// An IOAM option is one of these.
type (
	jsonTrace struct {
		jsonIOAM
		NodeLen      int        `json:"node_len"`
		RemainingLen uint8      `json:"remaining_len"`
		Overflow     bool       `json:"overflow"`
		Loopback     bool       `json:"loopback"`
		Active       bool       `json:"active"`
		TraceType    hex24      `json:"trace_type"`
		Nodes        []jsonNode `json:"nodes"`
	}
	jsonDirectExport struct {
		jsonIOAM
		TraceType hex24   `json:"trace_type"`
		FlowID    *uint32 `json:"flow_id,omitempty"`
		Sequence  *uint32 `json:"sequence,omitempty"`
	}
	jsonProofOfTransit struct {
		jsonIOAM
		POTType    uint8  `json:"pot_type"`
		PktID      *hex64 `json:"pkt_id,omitempty"` // only in type 0
		Cumulative *hex64 `json:"cumulative,omitempty"`
	}
	jsonEdgeToEdge struct {
		jsonIOAM
		E2EType  hex16   `json:"e2e_type"`
		Sequence any     `json:"sequence,omitempty"` // 64 bits as hex, 32 as a number
		Seconds  *uint32 `json:"ts_sec,omitempty"`
		Fraction *uint32 `json:"ts_frac,omitempty"`
	}
	jsonUnknownIOAM struct {
		OptionType hex8      `json:"option_type"`
		Type       uint8     `json:"type"`
		Data       hexOctets `json:"data"` // behind the type
	}
	jsonBrokenIOAM struct {
		OptionType hex8      `json:"option_type"`
		Error      string    `json:"error"`
		Data       hexOctets `json:"data"` // of the IPv6 option
	}
)

// jsonIOAM is what the known ones have in common.
type jsonIOAM struct {
	OptionType hex8   `json:"option_type,omitzero"` // of the IPv6 option
	Type       uint8  `json:"type"`
	Namespace  uint16 `json:"namespace"`
}

// A node has the fields that the trace type names, with the numbers on the
// wire.
type jsonNode struct {
	*jsonNodeID
	*jsonInterfaces
	Seconds            *uint32 `json:"ts_sec,omitempty"`
	Fraction           *uint32 `json:"ts_frac,omitempty"`
	TransitDelay       *uint32 `json:"transit_delay,omitempty"`
	NamespaceData      *uint32 `json:"ns_data,omitempty"`
	QueueDepth         *uint32 `json:"queue_depth,omitempty"`
	ChecksumComplement *uint32 `json:"checksum_complement,omitempty"`
	*jsonWideNodeID
	*jsonWideInterfaces
	WideNamespaceData *hex64        `json:"ns_data_wide,omitempty"`
	BufferOccupancy   *uint32       `json:"buffer_occupancy,omitempty"`
	Snapshot          *jsonSnapshot `json:"snapshot,omitempty"`
}

type (
	jsonNodeID struct {
		HopLimit uint8  `json:"hop_limit"`
		NodeID   uint32 `json:"node_id"`
	}
	jsonInterfaces struct {
		Ingress uint16 `json:"ingress_if"`
		Egress  uint16 `json:"egress_if"`
	}
	jsonWideNodeID struct {
		HopLimit uint8  `json:"hop_limit_wide"`
		NodeID   uint64 `json:"node_id_wide"`
	}
	jsonWideInterfaces struct {
		Ingress uint32 `json:"ingress_if_wide"`
		Egress  uint32 `json:"egress_if_wide"`
	}
	jsonSnapshot struct {
		Schema uint32    `json:"schema"`
		Data   hexOctets `json:"data"`
	}
)

func newJSONIOAMs(options []ioamOption) (all []any) {
	for i := range options {
		all = append(all, newJSONIOAM(&options[i]))
	}
	return all
}

func newJSONIOAM(o *ioamOption) any {
	if o.err != nil {
		return jsonBrokenIOAM{hex8(o.kind), o.err.Error(), o.data}
	}
	head := jsonIOAM{OptionType: hex8(o.kind), Type: uint8(o.option.Type)}
	switch o.option.Type {
	case ioam.TypePreallocated, ioam.TypeIncremental:
		head.Namespace = o.trace.Namespace
		return newJSONTrace(&o.trace, head)
	case ioam.TypeProofOfTransit:
		p := &o.proofOfTransit
		head.Namespace = p.Namespace
		return jsonProofOfTransit{
			jsonIOAM:   head,
			POTType:    p.Type,
			PktID:      given(p.Type == 0, (*hex64)(&p.PktID)),
			Cumulative: given(p.Type == 0, (*hex64)(&p.Cumulative)),
		}
	case ioam.TypeEdgeToEdge:
		e := &o.edgeToEdge
		head.Namespace = e.Namespace
		return jsonEdgeToEdge{
			jsonIOAM: head,
			E2EType:  hex16(e.Type),
			Sequence: e2eSequence(e),
			Seconds:  given(e.Type&ioam.E2ESeconds != 0, &e.Seconds),
			Fraction: given(e.Type&ioam.E2EFraction != 0, &e.Fraction),
		}
	case ioam.TypeDirectExport:
		d := &o.directExport
		head.Namespace = d.Namespace
		return jsonDirectExport{
			jsonIOAM:  head,
			TraceType: hex24(d.Type),
			FlowID:    given(d.ExtensionFlags&ioam.ExtensionFlowID != 0, &d.FlowID),
			Sequence:  given(d.ExtensionFlags&ioam.ExtensionSequence != 0, &d.Sequence),
		}
	}
	return jsonUnknownIOAM{head.OptionType, head.Type, o.option.Data}
}

func newJSONTrace(t *ioam.Trace, head jsonIOAM) jsonTrace {
	j := jsonTrace{
		jsonIOAM: head,
		NodeLen:  t.Type.NodeLen(), RemainingLen: t.RemainingLen, Overflow: t.Overflow, Loopback: t.Loopback, Active: t.Active,
		TraceType: hex24(t.Type), Nodes: []jsonNode{},
	}
	for n := range t.Nodes() {
		j.Nodes = append(j.Nodes, newJSONNode(&n))
	}
	return j
}

func newJSONNode(n *ioam.Node) jsonNode {
	t := n.Type
	j := jsonNode{
		Seconds:            given(t.Has(ioam.BitSeconds), &n.Seconds),
		Fraction:           given(t.Has(ioam.BitFraction), &n.Fraction),
		TransitDelay:       given(t.Has(ioam.BitTransitDelay), &n.TransitDelay),
		NamespaceData:      given(t.Has(ioam.BitNamespaceData), &n.NamespaceData),
		QueueDepth:         given(t.Has(ioam.BitQueueDepth), &n.QueueDepth),
		ChecksumComplement: given(t.Has(ioam.BitChecksum), &n.ChecksumComplement),
		WideNamespaceData:  given(t.Has(ioam.BitWideNamespaceData), (*hex64)(&n.WideNamespaceData)),
		BufferOccupancy:    given(t.Has(ioam.BitBufferOccupancy), &n.BufferOccupancy),
	}
	if t.Has(ioam.BitNode) {
		j.jsonNodeID = &jsonNodeID{n.HopLimit, n.NodeID}
	}
	if t.Has(ioam.BitInterfaces) {
		j.jsonInterfaces = &jsonInterfaces{n.Ingress, n.Egress}
	}
	if t.Has(ioam.BitWideNode) {
		j.jsonWideNodeID = &jsonWideNodeID{n.WideHopLimit, n.WideNodeID}
	}
	if t.Has(ioam.BitWideInterfaces) {
		j.jsonWideInterfaces = &jsonWideInterfaces{n.WideIngress, n.WideEgress}
	}
	if t.Has(ioam.BitSnapshot) {
		j.Snapshot = &jsonSnapshot{n.Snapshot.SchemaID, n.Snapshot.Data}
	}
	return j
}

// given returns v when the key is to be there, nil otherwise.
func given[T any](there bool, v *T) *T {
	if !there {
		return nil
	}
	return v
}

// hexOctets are octets as hex without 0x.
type hexOctets []byte

func (o hexOctets) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, o), nil }
