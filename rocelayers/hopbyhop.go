package rocelayers

import (
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/ipv6opt"
)

// HopByHop is an IPv6 Hop-by-Hop Options header (RFC 8200 section 4.3), in
// all else like [DestinationOptions]. Its type is gopacket's,
// layers.LayerTypeIPv6HopByHop.
//
// gopacket decodes the header inside layers.IPv6, so a DecodingLayerParser
// comes to this layer only behind an [IPv6] of this package; [OptionsOf] and
// [IOAMOf] read the header out of gopacket's.
//
// To write a packet with the header, put the layer behind an IPv6 layer whose
// NextHeader is layers.IPProtocolIPv6HopByHop.
type HopByHop struct {
	layers.BaseLayer
	ipv6opt.Header

	ioam *[]IOAM // of the Stack that is decoding
}

// NextLayerType returns the type that NextHeader leads to.
func (l *HopByHop) NextLayerType() gopacket.LayerType {
	return layers.IPProtocol(l.NextHeader).LayerType()
}

// DecodeFromBytes sets l from the header at the start of data, which it
// aliases. The errors are those of [ipv6opt.Header.Decode]. On error l is
// unchanged.
func (l *HopByHop) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	return decodeOptions(&l.BaseLayer, &l.Header, l.ioam, data, df)
}

// SerializeTo is that of [DestinationOptions].
func (l *HopByHop) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	return serializeOptions(&l.Header, b, opts)
}

// String returns the next header and the options.
func (l *HopByHop) String() string { return optionsString(&l.Header) }
