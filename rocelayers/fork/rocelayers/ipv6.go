// Code generated from rocelayers/ipv6.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"encoding/binary"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// IPv6 is gopacket's IPv6 layer for a DecodingLayerParser, except that it leaves a Hop-by-Hop Options header to the
// next layer, [HopByHop]. gopacket's layer decodes the header itself: it allocates an object for each option and
// rejects a packet because of an option that overruns the header. The layer of google/gopacket also treats such a
// packet as truncated and passes on the octets after its end.
//
// Pass &l.IPv6 where gopacket expects a *layers.IPv6.
type IPv6 struct {
	layers.IPv6
}

// DecodeFromBytes sets l from the IPv6 header at the start of data, which it
// aliases. Payload is the rest of the packet, with the Hop-by-Hop header. A
// jumbogram is decoded as by gopacket.
func (l *IPv6) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) < 40 {
		return l.IPv6.DecodeFromBytes(data, df)
	}
	length := binary.BigEndian.Uint16(data[4:])
	if data[6] != uint8(layers.IPProtocolIPv6HopByHop) || length == 0 {
		return l.IPv6.DecodeFromBytes(data, df)
	}
	end := 40 + int(length)
	if end > len(data) {
		df.SetTruncated()
		end = len(data)
	}
	first := binary.BigEndian.Uint32(data)
	l.BaseLayer = layers.BaseLayer{Contents: data[:40], Payload: data[40:end]}
	l.Version = uint8(first >> 28)
	l.TrafficClass = uint8(first >> 20)
	l.FlowLabel = first & 0xFFFFF
	l.Length = length
	l.NextHeader = layers.IPProtocolIPv6HopByHop
	l.HopLimit = data[7]
	l.SrcIP = data[8:24]
	l.DstIP = data[24:40]
	l.HopByHop = nil
	return nil
}
