// Code generated from rocelayers/destinationoptions.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
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
// NextHeader and Options are fields, All and Find read the options; decoding
// does not look at them. To write a header, build it with [ipv6opt.Builder]
// and Decode what that made:
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
	return decodeOptions(&l.BaseLayer, &l.Header, l.ioam, data, df)
}

// SerializeTo prepends the header, with the Hdr Ext Len that Options calls
// for. With FixLengths it first pads Options to what makes the header a
// multiple of 8 octets; without, another length is [ipv6opt.ErrHeaderLen].
func (l *DestinationOptions) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	return serializeOptions(&l.Header, b, opts)
}

// String returns the next header and the options.
func (l *DestinationOptions) String() string { return optionsString(&l.Header) }

func decodeDestinationOptions(data []byte, p gopacket.PacketBuilder) error {
	l := new(DestinationOptions)
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	return p.NextDecoder(layers.IPProtocol(l.NextHeader))
}
