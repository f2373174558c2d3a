// Code generated from rocelayers/proxy.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// Proxy is the data of a congestion notification to a proxy (PROXY section 4):
// the five-tuple of a congested flow, its congestion level, and a packet of it.
// [RegisterProxy] claims its UDP port.
//
// NewPacket continues with the layers of the invoking packet, as far as the message contains it: if it is incomplete,
// gopacket sets Truncated for the whole packet. These layers belong to the packet that the congested node saw: a BTH
// after a Proxy is not part of the carrying packet. A [Stack], which holds the layers of one packet, leaves the
// invoking packet to a Payload; Invoking may be decoded with another Stack.
type Proxy struct {
	layers.BaseLayer
	proxymsg.Message

	inUDP
}

// NextLayerType returns layers.LayerTypeIPv4 or layers.LayerTypeIPv6, as the
// invoking packet begins, and gopacket.LayerTypePayload when its header is not
// whole or of no IP, and in a Stack.
func (l *Proxy) NextLayerType() gopacket.LayerType {
	if l.config != nil {
		return gopacket.LayerTypePayload
	}
	switch wire.Version(l.Invoking) {
	case wire.IPv4:
		return layers.LayerTypeIPv4
	case wire.IPv6:
		return layers.LayerTypeIPv6
	}
	return gopacket.LayerTypePayload
}

// DecodeFromBytes sets l from the UDP data, which it aliases. The errors are
// those of [proxymsg.FromDatagram] and of UDP. On error l is unchanged.
func (l *Proxy) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	data = l.cutAfterIPv6(data)
	length, err := udpLength(l.udp, l.config, LayerTypeProxy, data, df)
	if err != nil {
		return err
	}
	var family proxymsg.Family // D8: inferred
	if l.config != nil {
		family = l.config.ProxyFamily
	}
	m, err := proxymsg.FromDatagram(&rocev2.Datagram{Data: data, Length: length}, family)
	if err != nil {
		return refuse(err, df)
	}
	fixed := len(data) - len(m.Invoking)
	l.BaseLayer = layers.BaseLayer{Contents: data[:fixed], Payload: m.Invoking}
	l.Message = m
	return nil
}

// SerializeTo prepends the message to the layers of the invoking packet, which are in b; if b is empty, Invoking is
// that packet. TruncateInvoking shortens Invoking to the permitted length (D9), but does not shorten layers: give a
// packet that is to be shortened as Invoking. With ComputeChecksums [SerializeLayers] rejects a message that is too
// long.
func (l *Proxy) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	m := l.Message
	if len(b.Bytes()) > 0 {
		m.Invoking = nil
	}
	octets, err := m.AppendBinary(nil)
	return prepend(b, octets, err)
}
