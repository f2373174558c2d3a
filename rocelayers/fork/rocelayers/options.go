// Code generated from rocelayers/options.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"fmt"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/rocecn/rocecn/ipv6opt"
)

// DestinationOptions is an IPv6 Destination Options header (RFC 8200 section
// 4.6). In a DecodingLayerParser it takes the place of gopacket's
// layers.IPv6Destination, which is no DecodingLayer; in NewPacket it does so
// after [OverrideDestinationOptions]. Its type is gopacket's,
// layers.LayerTypeIPv6Destination.
//
// NextHeader and Options are fields; All and Find read the options, decoding does not. To write a header, build it with
// [ipv6opt.Builder] and decode the result:
//
//	w := ipv6opt.Begin(nil, uint8(layers.IPProtocolUDP))
//	err := w.Add(0x9E, 4, 2, data)
//	_, err = l.Decode(w.Finish())
type DestinationOptions struct {
	layers.BaseLayer
	ipv6opt.Header

	ioam *[]IOAM // of the Stack that is decoding
}

// NextLayerType returns the type that NextHeader leads to.
func (l *DestinationOptions) NextLayerType() gopacket.LayerType {
	return layers.IPProtocol(l.NextHeader).LayerType()
}

// DecodeFromBytes sets l from the header at the start of data, which it
// aliases. The errors are those of [ipv6opt.Header.Decode]. On error l is
// unchanged.
func (l *DestinationOptions) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	rest, err := l.Decode(data)
	if err != nil {
		df.SetTruncated()
		return err
	}
	l.BaseLayer = layers.BaseLayer{Contents: data[:len(data)-len(rest)], Payload: rest}
	if l.ioam != nil {
		for o, err := range l.All() {
			if isIOAM(o.Type) {
				*l.ioam = append(*l.ioam, ioamIn(&l.Header, o, err))
			}
		}
	}
	return nil
}

// SerializeTo prepends the header, with the Hdr Ext Len of the length of Options. With FixLengths it first pads Options
// so that the length of the header is a multiple of 8 octets; without, another length is an error.
func (l *DestinationOptions) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	if opts.FixLengths {
		l.Options = padded(l.Options)
	}
	octets, err := b.PrependBytes(2 + len(l.Options))
	if err != nil {
		return err
	}
	_, err = l.AppendBinary(octets[:0])
	return err
}

// String returns the next header and the options.
func (l *DestinationOptions) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "NextHeader %v", layers.IPProtocol(l.NextHeader))
	for o, err := range l.All() {
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

// HopByHop is an IPv6 Hop-by-Hop Options header (RFC 8200 section 4.3), otherwise like [DestinationOptions]. Its type
// is gopacket's, layers.LayerTypeIPv6HopByHop.
//
// gopacket decodes the header inside layers.IPv6, so a DecodingLayerParser reaches this layer only after an [IPv6] of
// this package; [OptionsOf] and [IOAMOf] read the header out of gopacket's.
//
// To write a packet with the header, put the layer after an IPv6 layer with the NextHeader
// layers.IPProtocolIPv6HopByHop.
type HopByHop DestinationOptions

// NextLayerType returns the type that NextHeader leads to.
func (l *HopByHop) NextLayerType() gopacket.LayerType {
	return (*DestinationOptions)(l).NextLayerType()
}

// DecodeFromBytes works like the method of [DestinationOptions].
func (l *HopByHop) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	return (*DestinationOptions)(l).DecodeFromBytes(data, df)
}

// SerializeTo works like the method of [DestinationOptions].
func (l *HopByHop) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	return (*DestinationOptions)(l).SerializeTo(b, opts)
}

// String returns the next header and the options.
func (l *HopByHop) String() string { return (*DestinationOptions)(l).String() }

func decodeDestinationOptions(data []byte, p gopacket.PacketBuilder) error {
	l := new(DestinationOptions)
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	return p.NextDecoder(layers.IPProtocol(l.NextHeader))
}

// OptionsOf returns the IPv6 options header in a layer, parsed by package ipv6opt: that of a [HopByHop] or
// [DestinationOptions], of gopacket's layers.IPv6HopByHop or layers.IPv6Destination, and the Hop-by-Hop header that
// follows an IPv6 layer of either package. ok is false for all other layers and for nil. The header aliases the same
// memory as the layer. OptionsOf allocates nothing.
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

// padded returns the options with the end padding that their header needs.
func padded(options []byte) []byte {
	missing := -(2 + len(options)) & 7
	options = options[:len(options):len(options)] // appending must not overwrite octets after the options
	switch missing {
	case 0:
		return options
	case 1:
		return append(options, uint8(ipv6opt.Pad1))
	}
	padN := [8]byte{uint8(ipv6opt.PadN), uint8(missing - 2)}
	return append(options, padN[:missing]...)
}
