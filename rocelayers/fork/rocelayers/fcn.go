// Code generated from rocelayers/fcn.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"errors"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// FCN is the data of an FCN (FCN section 4): the flow label of a congested flow
// and its congestion level. [RegisterFCN] claims its UDP port.
type FCN struct {
	layers.BaseLayer
	fcn.Message

	udp    *layers.UDP     // the layer that carries the message; nil: data is the whole UDP data
	config *message.Config // of the Stack; nil for the defaults
}

// LayerType returns LayerTypeFCN.
func (l *FCN) LayerType() gopacket.LayerType { return LayerTypeFCN }

// CanDecode returns LayerTypeFCN.
func (l *FCN) CanDecode() gopacket.LayerClass { return LayerTypeFCN }

// NextLayerType returns LayerTypeZero: nothing follows.
func (l *FCN) NextLayerType() gopacket.LayerType { return gopacket.LayerTypeZero }

// DecodeFromBytes sets l from the UDP data, which it aliases. The errors are
// those of [fcn.FromDatagram] and of UDP. On error l is unchanged.
func (l *FCN) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	length, err := udpLength(l.udp, l.config, LayerTypeFCN, data, df)
	if err != nil {
		return err
	}
	m, err := fcn.FromDatagram(&rocev2.Datagram{Data: data, Length: length})
	if err != nil {
		if errors.Is(err, wireerr.Truncated) {
			df.SetTruncated()
		}
		return err
	}
	l.BaseLayer = layers.BaseLayer{Contents: data}
	l.Message = m
	return nil
}

// SerializeTo prepends the 4 octets.
func (l *FCN) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	octets, err := b.PrependBytes(fcn.Size)
	if err != nil {
		return err
	}
	_, err = l.AppendBinary(octets[:0])
	return err
}

func decodeFCN(data []byte, p gopacket.PacketBuilder) error {
	l := &FCN{udp: last[*layers.UDP](layersBefore(p))}
	if fromOurPort(l.udp, LayerTypeFCN) {
		return p.NextDecoder(gopacket.LayerTypePayload)
	}
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	return nil
}
