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
		_, members := o.formatFields()
		b = append(b, members...)
	}
	return append(b, '}')
}

// appendTrace appends the fields after the type of a trace option.
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

// appendNode appends the values that a node gave.
func appendNode(b []byte, n *ioam.Node) []byte {
	start := len(b)
	b = appendGiven(b, `,"hop_limit":`, n.HopLimit)
	b = appendGiven(b, `,"node_id":`, n.NodeID)
	b = appendGiven(b, `,"ingress_if":`, n.Ingress)
	b = appendGiven(b, `,"egress_if":`, n.Egress)
	b = appendGiven(b, `,"ts_sec":`, n.Seconds)
	b = appendGiven(b, `,"ts_frac":`, n.Fraction)
	b = appendGiven(b, `,"transit_delay":`, n.TransitDelay)
	b = appendGiven(b, `,"ns_data":`, n.NamespaceData)
	b = appendGiven(b, `,"queue_depth":`, n.QueueDepth)
	b = appendGiven(b, `,"checksum_complement":`, n.ChecksumComplement)
	b = appendGiven(b, `,"hop_limit_wide":`, n.WideHopLimit)
	b = appendGiven(b, `,"node_id_wide":`, n.WideNodeID)
	b = appendGiven(b, `,"ingress_if_wide":`, n.WideIngress)
	b = appendGiven(b, `,"egress_if_wide":`, n.WideEgress)
	if data, ok := n.WideNamespaceData(); ok {
		b = appendHexField(b, `,"ns_data_wide":"0x`, data, 16)
	}
	b = appendGiven(b, `,"buffer_occupancy":`, n.BufferOccupancy)
	if s, ok := n.Snapshot(); ok {
		b = appendUint(b, `,"snapshot":{"schema":`, s.SchemaID)
		b = appendOctets(b, `,"data":"`, s.Data)
		b = append(b, '}')
	}
	if len(b) == start {
		return append(b, '{', '}')
	}
	b[start] = '{' // instead of the first comma
	return append(b, '}')
}

// appendGiven appends a value if the node gave it.
func appendGiven[T unsigned](b []byte, key string, read func() (T, bool)) []byte {
	if value, ok := read(); ok {
		return appendUint(b, key, value)
	}
	return b
}
