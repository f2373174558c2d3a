package vectortest

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/rocecn/rocecn/ioam"
)

func TestIOAM(t *testing.T) {
	run(t, "ioam", func(b []byte) (o outcome) {
		var option ioam.Option
		if err := option.Decode(b); err != nil {
			return outcome{err: err}
		}
		switch option.Type {
		case ioam.OptTypePreallocated, ioam.OptTypeIncremental:
			o = trace(option)
		case ioam.OptTypeProofOfTransit:
			o = proofOfTransit(option)
		case ioam.OptTypeEdgeToEdge:
			o = edgeToEdge(option)
		case ioam.OptTypeDirectExport:
			o = directExport(option)
		default:
			o = outcome{decoded: fields{"type": uint8(option.Type), "data": hex.EncodeToString(option.Data)},
				encoded: option.Data}
		}
		if o.err == nil {
			o.deviates = errors.Join(option.Validate(), o.deviates)
			option.Data = o.encoded
			o.encoded, o.err = option.AppendBinary(nil)
		}
		return o
	})
}

func trace(option ioam.Option) (o outcome) {
	var t ioam.Trace
	if err := t.Decode(option); err != nil {
		return outcome{err: err}
	}
	o.decoded, o.deviates = traceFields(&t), t.Validate()
	o.encoded, o.err = t.AppendBinary(nil)
	return o
}

func traceFields(t *ioam.Trace) fields {
	nodes := []fields{}
	for n := range t.Nodes() {
		nodes = append(nodes, nodeFields(&n))
	}
	return fields{
		"type": uint8(t.OptType), "namespace": t.Namespace, "node_len": t.Type.NodeLen(),
		"remaining_len": t.RemainingLen,
		"overflow":      t.Overflow,
		"loopback":      t.Loopback, "active": t.Active, "trace_type": hexadecimal(t.Type, 6),
		"free": hex.EncodeToString(t.Data[:len(t.Data)-len(t.NodeData())]), "nodes": nodes,
	}
}

func nodeFields(n *ioam.Node) fields {
	f := fields{}
	snapshot, ok := n.Snapshot()
	if !ok {
		snapshot.SchemaID = 0xFFFFFF
	}
	for _, field := range []struct {
		bit  ioam.TraceType
		more fields
	}{
		{ioam.BitNode, fields{"hop_limit": word(n.HopLimit()), "node_id": word(n.NodeID()) & 0xFFFFFF}},
		{ioam.BitInterfaces, fields{"ingress_if": word(n.Ingress()), "egress_if": word(n.Egress())}},
		{ioam.BitSeconds, fields{"ts_sec": word(n.Seconds())}},
		{ioam.BitFraction, fields{"ts_frac": word(n.Fraction())}},
		{ioam.BitTransitDelay, fields{"transit_delay": word(n.TransitDelay())}},
		{ioam.BitNamespaceData, fields{"ns_data": word(n.NamespaceData())}},
		{ioam.BitQueueDepth, fields{"queue_depth": word(n.QueueDepth())}},
		{ioam.BitChecksum, fields{"checksum_complement": word(n.ChecksumComplement())}},
		{ioam.BitWideNode, fields{"hop_limit_wide": word(n.WideHopLimit()),
			"node_id_wide": hexadecimal(word(n.WideNodeID())&(1<<56-1), 14)}},
		{ioam.BitWideInterfaces, fields{"ingress_if_wide": word(n.WideIngress()),
			"egress_if_wide": word(n.WideEgress())}},
		{ioam.BitWideNamespaceData, fields{"ns_data_wide": hexadecimal(word(n.WideNamespaceData()), 16)}},
		{ioam.BitBufferOccupancy, fields{"buffer_occupancy": word(n.BufferOccupancy())}},
		{ioam.BitSnapshot, fields{"snapshot": fields{"schema": snapshot.SchemaID,
			"data": hex.EncodeToString(snapshot.Data)}}},
	} {
		if n.Type().Has(field.bit) {
			f = with(f, field.more)
		}
	}
	var undefined []string
	for i := range 10 {
		if n.Type().Has(ioam.BitUndefined >> i) {
			undefined = append(undefined, hexadecimal(word(n.Undefined(12+i)), 8))
		}
	}
	if undefined != nil {
		f["undefined"] = undefined
	}
	return f
}

// word returns a value as it is in the packet: all ones if the node did not give it.
func word[T uint8 | uint16 | uint32 | uint64](value T, ok bool) T {
	if !ok {
		return ^T(0)
	}
	return value
}

func proofOfTransit(option ioam.Option) (o outcome) {
	var p ioam.ProofOfTransit
	if err := p.Decode(option); err != nil {
		return outcome{err: err}
	}
	o.decoded = fields{"type": uint8(option.Type), "namespace": p.Namespace, "pot_type": p.Type, "flags": p.Flags}
	if p.Type == 0 {
		o.decoded = with(o.decoded, fields{"pkt_id": hexadecimal(p.PktID, 16),
			"cumulative": hexadecimal(p.Cumulative, 16)})
	} else {
		o.decoded["data"] = hex.EncodeToString(p.Data)
	}
	o.encoded, o.err = p.AppendBinary(nil)
	return o
}

func edgeToEdge(option ioam.Option) (o outcome) {
	var e ioam.EdgeToEdge
	if err := e.Decode(option); err != nil {
		return outcome{err: err}
	}
	o.decoded = fields{"type": uint8(option.Type), "namespace": e.Namespace, "e2e_type": hexadecimal(e.Type, 4)}
	for _, field := range []struct {
		bit   ioam.E2EType
		name  string
		value any
	}{
		{ioam.E2ESequence64, "sequence64", hexadecimal(e.Sequence64, 16)},
		{ioam.E2ESequence32, "sequence", e.Sequence32},
		{ioam.E2ESeconds, "ts_sec", e.Seconds},
		{ioam.E2EFraction, "ts_frac", e.Fraction},
	} {
		if e.Type&field.bit != 0 {
			o.decoded[field.name] = field.value
		}
	}
	o.encoded, o.err = e.AppendBinary(nil)
	return o
}

func directExport(option ioam.Option) (o outcome) {
	var d ioam.DirectExport
	if err := d.Decode(option); err != nil {
		return outcome{err: err}
	}
	o.decoded = fields{"type": uint8(option.Type), "namespace": d.Namespace, "flags": d.Flags,
		"extension_flags": d.ExtensionFlags, "trace_type": hexadecimal(d.Type, 6)}
	if d.ExtensionFlags&ioam.ExtensionFlowID != 0 {
		o.decoded["flow_id"] = d.FlowID
	}
	if d.ExtensionFlags&ioam.ExtensionSequence != 0 {
		o.decoded["sequence"] = d.Sequence
	}
	o.encoded, o.err = d.AppendBinary(nil)
	return o
}
