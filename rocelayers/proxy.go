package rocelayers

import (
	"errors"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// Proxy is the data of a congestion notification to a proxy (PROXY section 4):
// the five-tuple of a congested flow, its congestion level, and a packet of it.
// [RegisterProxy] claims its UDP port.
//
// The layers of the invoking packet follow, as far as it was sent. They show
// what the congested node saw: a BTH behind a Proxy is not one of this packet.
// In a DecodingLayerParser they overwrite the layers that carried the message;
// to keep those, leave Proxy out of the parser and call DecodeFromBytes with
// the payload of UDP. BTH needs no layers to find the queue pair.
type Proxy struct {
	layers.BaseLayer
	proxymsg.Message

	Family proxymsg.Family // of the five-tuple's addresses; 0, as in NewPacket: inferred (D8)

	// UDP is the layer that carries the message, as in [FCN].
	UDP *layers.UDP
}

// LayerType returns LayerTypeProxy.
func (l *Proxy) LayerType() gopacket.LayerType { return LayerTypeProxy }

// CanDecode returns LayerTypeProxy.
func (l *Proxy) CanDecode() gopacket.LayerClass { return LayerTypeProxy }

// NextLayerType returns layers.LayerTypeIPv4 or layers.LayerTypeIPv6, as the
// invoking packet begins, and gopacket.LayerTypePayload when its header is not
// whole or of no IP.
func (l *Proxy) NextLayerType() gopacket.LayerType {
	if len(l.Invoking) >= 20 && l.Invoking[0]>>4 == 4 {
		return layers.LayerTypeIPv4
	}
	if len(l.Invoking) >= 40 && l.Invoking[0]>>4 == 6 {
		return layers.LayerTypeIPv6
	}
	return gopacket.LayerTypePayload
}

// DecodeFromBytes sets l from the UDP data, which it aliases. The errors are
// those of [proxymsg.FromDatagram], of UDP, and ErrCut. On error l is
// unchanged.
func (l *Proxy) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	length, err := udpLength(l.UDP, LayerTypeProxy, data, df)
	if err != nil {
		return err
	}
	m, err := proxymsg.FromDatagram(&rocev2.Datagram{Data: data, Length: length}, l.Family)
	if err != nil {
		if errors.Is(err, wireerr.Truncated) {
			df.SetTruncated()
		}
		return err
	}
	fixed := len(data) - len(m.Invoking)
	l.BaseLayer = layers.BaseLayer{Contents: data[:fixed], Payload: m.Invoking}
	l.Message = m
	return nil
}

// SerializeTo prepends the message to what is in b, the layers of the invoking
// packet; with nothing in b, Invoking is that packet. Cut shortens Invoking to
// what may be sent (D9).
func (l *Proxy) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	m := l.Message
	if len(b.Bytes()) > 0 {
		m.Invoking = nil
	}
	octets, err := m.AppendBinary(nil)
	if err != nil {
		return err
	}
	room, err := b.PrependBytes(len(octets))
	copy(room, octets)
	return err
}

// String is the message's.
func (l *Proxy) String() string { return l.Message.String() }

func decodeProxy(data []byte, p gopacket.PacketBuilder) error {
	l := &Proxy{UDP: last[*layers.UDP](layersBefore(p))}
	if !meant(l.UDP, LayerTypeProxy) {
		return p.NextDecoder(gopacket.LayerTypePayload)
	}
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	return p.NextDecoder(l.NextLayerType())
}
