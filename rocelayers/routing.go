package rocelayers

import (
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// Routing is an IPv6 Routing header (RFC 8200 section 4.4) of any type, a
// Segment Routing Header (RFC 8754) among them, for a [Stack]: gopacket's
// layers.IPv6Routing, which NewPacket uses, is no DecodingLayer. The type is
// gopacket's, layers.LayerTypeIPv6Routing.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Next Header  |  Hdr Ext Len  |  Routing Type | Segments Left |
//	~                      type-specific data                       ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type Routing struct {
	layers.BaseLayer
	NextHeader   layers.IPProtocol
	RoutingType  uint8
	SegmentsLeft uint8
	Data         []byte // type-specific; 4 octets and a multiple of 8
}

var (
	errRoutingTruncated = wireerr.New("rocelayers", "Routing header",
		"truncated: shorter than 8 octets, or than its Hdr Ext Len", wireerr.Truncated)
	errRoutingData = wireerr.New("rocelayers", "Routing header",
		"Data is not 4 octets and a multiple of 8, up to 2044", wireerr.Range)
)

// NextLayerType returns the type that NextHeader leads to.
func (l *Routing) NextLayerType() gopacket.LayerType { return l.NextHeader.LayerType() }

// DecodeFromBytes sets l from the header at the start of data, which it
// aliases. On error l is unchanged.
func (l *Routing) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) < 8 || len(data) < 8+8*int(data[1]) {
		df.SetTruncated()
		return errRoutingTruncated
	}
	end := 8 + 8*int(data[1])
	*l = Routing{
		BaseLayer:    layers.BaseLayer{Contents: data[:end], Payload: data[end:]},
		NextHeader:   layers.IPProtocol(data[0]),
		RoutingType:  data[2],
		SegmentsLeft: data[3],
		Data:         data[4:end:end],
	}
	return nil
}

// SerializeTo prepends the header, with the Hdr Ext Len that Data calls for.
func (l *Routing) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	if len(l.Data)%8 != 4 || len(l.Data) > 4+8*0xFF {
		return errRoutingData
	}
	octets, err := b.PrependBytes(4 + len(l.Data))
	if err != nil {
		return err
	}
	octets[0], octets[1] = uint8(l.NextHeader), uint8(len(l.Data)/8)
	octets[2], octets[3] = l.RoutingType, l.SegmentsLeft
	copy(octets[4:], l.Data)
	return nil
}
