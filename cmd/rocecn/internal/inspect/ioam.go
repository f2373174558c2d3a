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

// ioamOption is an IPv6 option that carries IOAM. Of the decoded forms the one
// that option.Type names is set; err is set instead when there is none.
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

// options decodes IOAM options.
func (l *looker) options(all iter.Seq2[rocev2.IOAMOption, error]) []ioamOption {
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
	case ioam.TypePreallocated, ioam.TypeIncremental:
		o.err = o.trace.Decode(o.option)
	case ioam.TypeProofOfTransit:
		o.err = o.proofOfTransit.Decode(o.option)
	case ioam.TypeEdgeToEdge:
		o.err = o.edgeToEdge.Decode(o.option)
	case ioam.TypeDirectExport:
		o.err = o.directExport.Decode(o.option)
	}
}

// String is what people read.
func (o *ioamOption) String() string {
	if o.err != nil {
		return fmt.Sprintf("IOAM in option %v BROKEN: %s", o.kind, reason(o.err))
	}
	switch o.option.Type {
	case ioam.TypePreallocated, ioam.TypeIncremental:
		return "IOAM " + traceText(&o.trace)
	case ioam.TypeProofOfTransit:
		p := &o.proofOfTransit
		if p.Type != 0 {
			return fmt.Sprintf("IOAM proof of transit ns=%d type=%d", p.Namespace, p.Type)
		}
		return fmt.Sprintf("IOAM proof of transit ns=%d pktid=0x%x cumulative=0x%x", p.Namespace, p.PktID, p.Cumulative)
	case ioam.TypeEdgeToEdge:
		e := &o.edgeToEdge
		s := fmt.Sprintf("IOAM edge-to-edge ns=%d", e.Namespace)
		switch {
		case e.Type&ioam.E2ESequence64 != 0:
			s += fmt.Sprintf(" seq=%d", e.Sequence64)
		case e.Type&ioam.E2ESequence32 != 0:
			s += fmt.Sprintf(" seq=%d", e.Sequence32)
		}
		return s
	case ioam.TypeDirectExport:
		d := &o.directExport
		s := fmt.Sprintf("IOAM direct export ns=%d", d.Namespace)
		if d.ExtensionFlags&ioam.ExtensionFlowID != 0 {
			s += fmt.Sprintf(" flow=%d", d.FlowID)
		}
		if d.ExtensionFlags&ioam.ExtensionSequence != 0 {
			s += fmt.Sprintf(" seq=%d", d.Sequence)
		}
		if words, n := d.UndefinedExtensions(); n > 0 {
			s += fmt.Sprintf(" flags=0x%02x unknown=0x%08x", d.ExtensionFlags, words[0])
			for _, w := range words[1:n] {
				s += fmt.Sprintf(",0x%08x", w)
			}
		}
		return s
	}
	return fmt.Sprintf("IOAM type %d, %d octets", o.option.Type, len(o.option.Data))
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

// nodeText shows who a node is, how deep its queue was and how long it held
// the packet, as far as it said so.
func nodeText(n *ioam.Node) string {
	s := "?"
	switch id, known := n.ID(); {
	case known && id < ioam.NoNodeID:
		s = fmt.Sprint(id)
	case known:
		s = fmt.Sprintf("0x%x", id)
	}
	there := n.Available()
	if there.Has(ioam.BitQueueDepth) {
		s += fmt.Sprintf(" q=%d", n.QueueDepth)
	}
	switch {
	case !there.Has(ioam.BitTransitDelay):
	case n.TransitDelay&ioam.DelayOverflow != 0:
		s += " delay>2s"
	default:
		s += fmt.Sprintf(" delay=%v", time.Duration(n.TransitDelay))
	}
	if there.Has(ioam.BitSnapshot) {
		s += fmt.Sprintf(" schema=%d %q", n.Snapshot.SchemaID, n.Snapshot.Data)
	}
	return s
}
