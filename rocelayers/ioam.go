package rocelayers

import (
	"fmt"
	"iter"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
)

// IOAM is one IPv6 option that carries IOAM (RFC 9486 section 3). Contents is
// the option from its Type octet on.
//
// After [Register], NewPacket adds an IOAM layer for each such option in the
// Hop-by-Hop and Destination Options headers of a RoCEv2 packet, outermost
// first, between the UDP layer and the BTH; a [Stack] has them in a slice.
// Everywhere else, such as in another DecodingLayerParser, [IOAMOf]
// reads the options of a layer.
//
// A broken option never makes the packet around it unreadable: Err tells.
type IOAM struct {
	layers.BaseLayer
	final
	OptionType ipv6opt.Type // ioam.IPv6MayChange or ioam.IPv6NoChange
	Offset     uint16       // of the Type octet from the start of the options header
	Option     ioam.Option  // as far as Err allows

	// Of these the one is set that Option.Type names, unless there is an Err.
	Trace          ioam.Trace // of both kinds
	ProofOfTransit ioam.ProofOfTransit
	EdgeToEdge     ioam.EdgeToEdge
	DirectExport   ioam.DirectExport

	// Err is the error in the option, [ipv6opt.ErrOverrun] or an error of package ioam, or nil. IPv6 option type 0x11
	// is also used by others, for their own formats.
	Err error
}

// IOAMOf yields the IOAM options in the options header of a layer, see
// [OptionsOf], in their order, each as a separate value. Ranging over it
// allocates nothing.
func IOAMOf(l gopacket.Layer) iter.Seq[IOAM] {
	return func(yield func(IOAM) bool) {
		h, _ := OptionsOf(l)
		for o, err := range h.All() {
			if isIOAM(o.Type) && !yield(ioamIn(&h, o, err)) {
				return
			}
		}
	}
}

func isIOAM(t ipv6opt.Type) bool { return t == ioam.IPv6MayChange || t == ioam.IPv6NoChange }

// ioamIn decodes an option of a header, which overrun says overruns it.
func ioamIn(h *ipv6opt.Header, o ipv6opt.Option, overrun error) IOAM {
	at := int(o.Offset) - 2
	end := at + 2 + len(o.Data)
	if overrun != nil {
		end = len(h.Options)
	}
	l := IOAM{OptionType: o.Type, Offset: o.Offset, Err: overrun}
	l.Contents = h.Options[at:end:end]
	if l.Err == nil {
		l.Err = l.decode(o.Data)
	}
	return l
}

// decode decodes the data of the option. Which type of IOAM belongs into which
// IPv6 option does not matter.
func (l *IOAM) decode(data []byte) error {
	if err := l.Option.Decode(data); err != nil {
		return err
	}
	switch l.Option.Type {
	case ioam.OptTypePreallocated, ioam.OptTypeIncremental:
		return l.Trace.Decode(l.Option)
	case ioam.OptTypeProofOfTransit:
		return l.ProofOfTransit.Decode(l.Option)
	case ioam.OptTypeEdgeToEdge:
		return l.EdgeToEdge.Decode(l.Option)
	case ioam.OptTypeDirectExport:
		return l.DirectExport.Decode(l.Option)
	}
	return nil
}

// DecodeFromBytes sets l from the IPv6 option at the start of data, which it aliases. An incomplete option or one of
// another type is an error and leaves l unchanged; an error inside the option is in Err.
func (l *IOAM) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	h := ipv6opt.Header{Options: data}
	for o, err := range h.All() {
		switch {
		case !isIOAM(o.Type):
			return errNotIOAM
		case err != nil:
			df.SetTruncated()
			return err
		}
		*l = ioamIn(&h, o, nil)
		l.Offset = 0
		return nil
	}
	df.SetTruncated()
	return ipv6opt.ErrOverrun
}

// SerializeTo writes nothing: the octets are those of the layer that has the
// option, which writes them.
func (l *IOAM) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	return nil
}

// String returns the types, and for a trace the fields of its header and the number of nodes.
func (l *IOAM) String() string {
	s := l.OptionType.String()
	switch t := &l.Trace; {
	case l.Err != nil:
		return fmt.Sprintf("%s %v", s, l.Err)
	case l.Option.Type <= ioam.OptTypeIncremental:
		return fmt.Sprintf("%s %v Namespace %d Type %v RemainingLen %d Overflow %t Nodes %d",
			s, t.OptType, t.Namespace, t.Type, t.RemainingLen, t.Overflow, nodes(t))
	}
	return fmt.Sprintf("%s %v", s, l.Option.Type)
}

func nodes(t *ioam.Trace) (n int) {
	for range t.Nodes() {
		n++
	}
	return n
}

// addIOAM adds the layers of the options in the layers before.
func addIOAM(p gopacket.PacketBuilder, before []gopacket.Layer) {
	for _, l := range before {
		if l.LayerType() == layers.LayerTypeIPv6 {
			continue // its Hop-by-Hop header is a layer, too
		}
		for o := range IOAMOf(l) {
			p.AddLayer(&o)
		}
	}
}
