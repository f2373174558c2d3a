package inspect

import (
	"github.com/rocecn/rocecn/ioam"
)

func appendIOAMs(b []byte, options []ioamOption) []byte {
	b = append(b, '[')
	for i := range options {
		b = append(appendIOAM(b, &options[i]), ',')
	}
	return endList(b)
}

func appendIOAM(b []byte, o *ioamOption) []byte {
	b = appendHexField(b, `{"option_type":"0x`, o.kind, 2)
	if o.err != nil {
		b = appendString(b, `,"error":"`, o.err.Error())
		b = appendOctets(b, `,"data":"`, o.data)
		return append(b, '}')
	}
	b = appendUint(b, `,"type":`, o.option.Type)
	if o.isTrace() {
		b = appendTrace(b, &o.trace)
	} else {
		_, members := o.texts()
		b = append(b, members...)
	}
	return append(b, '}')
}

// appendTrace appends what stands behind the type of a trace option.
func appendTrace(b []byte, t *ioam.Trace) []byte {
	b = appendUint(b, `,"namespace":`, t.Namespace)
	b = appendUint(b, `,"node_len":`, uint(t.Type.NodeLen()))
	b = appendUint(b, `,"remaining_len":`, t.RemainingLen)
	b = appendBool(b, `,"overflow":`, t.Overflow)
	b = appendBool(b, `,"loopback":`, t.Loopback)
	b = appendBool(b, `,"active":`, t.Active)
	b = appendHexField(b, `,"trace_type":"0x`, t.Type, 6)
	b = append(b, `,"nodes":[`...)
	for n := range t.Nodes() {
		b = append(appendNode(b, &n), ',')
	}
	return endList(b)
}

// appendNode appends the fields that the trace type names, with the numbers on
// the wire.
func appendNode(b []byte, n *ioam.Node) []byte {
	start := len(b)
	field := func(bit ioam.TraceType, key string, value uint64) {
		if n.Type.Has(bit) {
			b = appendUint(b, key, value)
		}
	}
	field(ioam.BitNode, `,"hop_limit":`, uint64(n.HopLimit))
	field(ioam.BitNode, `,"node_id":`, uint64(n.NodeID))
	field(ioam.BitInterfaces, `,"ingress_if":`, uint64(n.Ingress))
	field(ioam.BitInterfaces, `,"egress_if":`, uint64(n.Egress))
	field(ioam.BitSeconds, `,"ts_sec":`, uint64(n.Seconds))
	field(ioam.BitFraction, `,"ts_frac":`, uint64(n.Fraction))
	field(ioam.BitTransitDelay, `,"transit_delay":`, uint64(n.TransitDelay))
	field(ioam.BitNamespaceData, `,"ns_data":`, uint64(n.NamespaceData))
	field(ioam.BitQueueDepth, `,"queue_depth":`, uint64(n.QueueDepth))
	field(ioam.BitChecksum, `,"checksum_complement":`, uint64(n.ChecksumComplement))
	field(ioam.BitWideNode, `,"hop_limit_wide":`, uint64(n.WideHopLimit))
	field(ioam.BitWideNode, `,"node_id_wide":`, n.WideNodeID)
	field(ioam.BitWideInterfaces, `,"ingress_if_wide":`, uint64(n.WideIngress))
	field(ioam.BitWideInterfaces, `,"egress_if_wide":`, uint64(n.WideEgress))
	if n.Type.Has(ioam.BitWideNamespaceData) {
		b = appendHexField(b, `,"ns_data_wide":"0x`, n.WideNamespaceData, 16)
	}
	field(ioam.BitBufferOccupancy, `,"buffer_occupancy":`, uint64(n.BufferOccupancy))
	if n.Type.Has(ioam.BitSnapshot) {
		b = appendUint(b, `,"snapshot":{"schema":`, n.Snapshot.SchemaID)
		b = appendOctets(b, `,"data":"`, n.Snapshot.Data)
		b = append(b, '}')
	}
	if len(b) == start {
		return append(b, '{', '}')
	}
	b[start] = '{' // instead of the first comma
	return append(b, '}')
}
