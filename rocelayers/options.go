package rocelayers

import (
	"fmt"
	"strings"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/ipv6opt"
)

// OptionsOf returns the IPv6 options header in a layer, parsed by package
// ipv6opt: that of a [HopByHop] or [DestinationOptions], of gopacket's
// layers.IPv6HopByHop or layers.IPv6Destination, and the Hop-by-Hop header
// behind an IPv6 layer, gopacket's or ours. ok is false for everything else,
// nil among it. It aliases what the layer does, and allocates nothing.
func OptionsOf(l gopacket.Layer) (h ipv6opt.Header, ok bool) {
	var octets []byte
	switch l := l.(type) {
	case *DestinationOptions:
		return l.Header, true
	case *HopByHop:
		return l.Header, true
	case *layers.IPv6Destination:
		octets = l.Contents
	case *layers.IPv6HopByHop:
		octets = l.Contents
	case *layers.IPv6:
		if l.HopByHop != nil {
			octets = l.HopByHop.Contents
		}
	case *IPv6:
		if l.NextHeader == layers.IPProtocolIPv6HopByHop {
			octets = l.Payload
		}
	}
	_, err := h.Decode(octets)
	return h, err == nil
}

// decodeOptions decodes a header, and adds the IOAM in it to found.
func decodeOptions(base *layers.BaseLayer, h *ipv6opt.Header, found *[]IOAM, data []byte,
	df gopacket.DecodeFeedback) error {
	rest, err := h.Decode(data)
	if err != nil {
		df.SetTruncated()
		return err
	}
	*base = layers.BaseLayer{Contents: data[:len(data)-len(rest)], Payload: rest}
	if found != nil {
		for o, err := range h.All() {
			if isIOAM(o.Type) {
				*found = append(*found, ioamIn(h, o, err))
			}
		}
	}
	return nil
}

func serializeOptions(h *ipv6opt.Header, b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	if opts.FixLengths {
		h.Options = padded(h.Options)
	}
	octets, err := b.PrependBytes(2 + len(h.Options))
	if err != nil {
		return err
	}
	_, err = h.AppendBinary(octets[:0])
	return err
}

// padded returns the options with the end padding that their header needs.
func padded(options []byte) []byte {
	missing := -(2 + len(options)) & 7
	options = options[:len(options):len(options)] // what lies behind is not ours
	switch missing {
	case 0:
		return options
	case 1:
		return append(options, uint8(ipv6opt.Pad1))
	}
	padN := [8]byte{uint8(ipv6opt.PadN), uint8(missing - 2)}
	return append(options, padN[:missing]...)
}

func optionsString(h *ipv6opt.Header) string {
	var s strings.Builder
	fmt.Fprintf(&s, "NextHeader %v", layers.IPProtocol(h.NextHeader))
	for o, err := range h.All() {
		fmt.Fprintf(&s, ", %v", o.Type)
		switch {
		case err != nil:
			fmt.Fprintf(&s, " %v", err)
		case o.Type != ipv6opt.Pad1:
			fmt.Fprintf(&s, " %d octets", len(o.Data))
		}
	}
	return s.String()
}
