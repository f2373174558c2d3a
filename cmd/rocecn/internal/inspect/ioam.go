package inspect

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
)

// ioamOption is an IPv6 option that carries IOAM. Either err is set, or the decoded form for option.Type.
type ioamOption struct {
	kind   ipv6opt.Type
	data   []byte // of the IPv6 option
	option ioam.Option
	err    error

	trace          ioam.Trace
	directExport   ioam.DirectExport
	edgeToEdge     ioam.EdgeToEdge
	proofOfTransit ioam.ProofOfTransit
}

// decodeOptions decodes IOAM options.
func (l *recordDecoder) decodeOptions(all iter.Seq2[rocev2.IOAMOption, error]) []ioamOption {
	l.ioam = l.ioam[:0]
	for o, err := range all {
		l.ioam = append(l.ioam, ioamOption{kind: o.Type, data: o.Data, option: o.Option, err: err})
		l.ioam[len(l.ioam)-1].decode()
	}
	return l.ioam
}

// decode decodes the data. Which IOAM types belong into which IPv6 option does
// not matter here.
func (o *ioamOption) decode() {
	if o.err != nil {
		return
	}
	switch o.option.Type {
	case ioam.OptTypePreallocated, ioam.OptTypeIncremental:
		o.err = o.trace.Decode(o.option)
	case ioam.OptTypeProofOfTransit:
		o.err = o.proofOfTransit.Decode(o.option)
	case ioam.OptTypeEdgeToEdge:
		o.err = o.edgeToEdge.Decode(o.option)
	case ioam.OptTypeDirectExport:
		o.err = o.directExport.Decode(o.option)
	}
}

// String returns the text form.
func (o *ioamOption) String() string {
	switch {
	case o.err != nil:
		return fmt.Sprintf("IOAM in option %v BROKEN: %s", o.kind, errorReason(o.err))
	case o.isTrace():
		return "IOAM " + traceText(&o.trace)
	}
	text, _ := o.formatFields()
	return "IOAM " + text
}

// isTrace reports whether the option is a trace. It is valid only if err is nil.
func (o *ioamOption) isTrace() bool {
	return o.option.Type == ioam.OptTypePreallocated || o.option.Type == ioam.OptTypeIncremental
}

// formatFields returns the text and the JSON members of an option other than a trace.
func (o *ioamOption) formatFields() (text, members string) {
	addText := func(format string, args ...any) { text += fmt.Sprintf(format, args...) }
	addMember := func(format string, args ...any) { members += fmt.Sprintf(format, args...) }
	switch o.option.Type {
	case ioam.OptTypeProofOfTransit:
		p := &o.proofOfTransit
		addText("proof of transit ns=%d", p.Namespace)
		addMember(`,"namespace":%d,"pot_type":%d`, p.Namespace, p.Type)
		if p.Type == 0 {
			addText(" pktid=0x%x cumulative=0x%x", p.PktID, p.Cumulative)
			addMember(`,"pkt_id":"0x%016x","cumulative":"0x%016x"`, p.PktID, p.Cumulative)
		} else {
			addText(" type=%d", p.Type)
		}
		if len(p.Data) > 0 {
			addText(" data=%x", p.Data)
			addMember(`,"data":"%x"`, p.Data)
		}
	case ioam.OptTypeEdgeToEdge:
		e := &o.edgeToEdge
		addText("edge-to-edge ns=%d", e.Namespace)
		addMember(`,"namespace":%d,"e2e_type":"0x%04x"`, e.Namespace, uint16(e.Type))
		key := "sequence"
		if e.Type&ioam.E2ESequence64 != 0 {
			addText(" seq=%d", e.Sequence64)
			addMember(`,"sequence":"0x%016x"`, e.Sequence64)
			key = "sequence_32"
		}
		if e.Type&ioam.E2ESequence32 != 0 {
			addText(" seq=%d", e.Sequence32)
			addMember(`,"%s":%d`, key, e.Sequence32)
		}
		if e.Type&ioam.E2ESeconds != 0 {
			addMember(`,"ts_sec":%d`, e.Seconds)
		}
		if e.Type&ioam.E2EFraction != 0 {
			addMember(`,"ts_frac":%d`, e.Fraction)
		}
		if len(e.Rest) > 0 {
			addText(" unknown=%x", e.Rest)
			addMember(`,"unknown":"%x"`, e.Rest)
		}
	case ioam.OptTypeDirectExport:
		d := &o.directExport
		addText("direct export ns=%d", d.Namespace)
		addMember(`,"namespace":%d,"trace_type":"0x%06x"`, d.Namespace, uint32(d.Type))
		if d.ExtensionFlags&ioam.ExtensionFlowID != 0 {
			addText(" flow=%d", d.FlowID)
			addMember(`,"flow_id":%d`, d.FlowID)
		}
		if d.ExtensionFlags&ioam.ExtensionSequence != 0 {
			addText(" seq=%d", d.Sequence)
			addMember(`,"sequence":%d`, d.Sequence)
		}
		if words, n := d.UndefinedExtensions(); n > 0 {
			addText(" flags=0x%02x unknown=0x%08x", uint8(d.ExtensionFlags), words[0])
			addMember(`,"extension_flags":"0x%02x","unknown_extensions":["0x%08x"`, uint8(d.ExtensionFlags), words[0])
			for _, w := range words[1:n] {
				addText(",0x%08x", w)
				addMember(`,"0x%08x"`, w)
			}
			members += "]"
		}
	default:
		addText("type %d, %d octets", o.option.Type, len(o.option.Data))
		addMember(`,"data":"%x"`, o.option.Data) // octets after the type
	}
	return text, members
}

// traceText shows a trace as the way that the packet took, first hop first:
//
//	trace ns=123: 178 q=0 > 195 q=1448 > 212 q=0, room for 10 words
func traceText(t *ioam.Trace) string {
	hops := []string{}
	for n := range t.Nodes() {
		hops = append(hops, nodeText(&n))
	}
	slices.Reverse(hops)
	s := fmt.Sprintf("trace ns=%d", t.Namespace)
	if len(hops) > 0 {
		s += ": " + strings.Join(hops, " > ")
	}
	if t.RemainingLen > 0 {
		s += fmt.Sprintf(", room for %d words", t.RemainingLen)
	}
	if t.Overflow {
		s += ", OVERFLOW"
	}
	return s
}

// nodeText returns the identifier of a node, its queue depth, its transit delay and its snapshot, as far as the node
// gave them.
func nodeText(n *ioam.Node) string {
	s := "?"
	switch id, ok := n.ID(); {
	case ok && id < 1<<24-1:
		s = fmt.Sprint(id)
	case ok:
		s = fmt.Sprintf("0x%x", id)
	}
	if depth, ok := n.QueueDepth(); ok {
		s += fmt.Sprintf(" q=%d", depth)
	}
	switch delay, ok := n.TransitDelay(); {
	case !ok:
	case delay&ioam.DelayOverflow != 0:
		s += " delay>2s"
	default:
		s += fmt.Sprintf(" delay=%v", time.Duration(delay))
	}
	if snapshot, ok := n.Snapshot(); ok {
		s += fmt.Sprintf(" schema=%d %q", snapshot.SchemaID, snapshot.Data)
	}
	return s
}
