// Code generated from rocelayers/fcn.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/rocev2"
)

// FCN is the data of an FCN (FCN section 4): the flow label of a congested flow
// and its congestion level. [RegisterFCN] claims its UDP port.
type FCN struct {
	layers.BaseLayer
	fcn.Message

	final
	inUDP
}

// DecodeFromBytes sets l from the UDP data, which it aliases. The errors are
// those of [fcn.FromDatagram] and of UDP. On error l is unchanged.
func (l *FCN) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	data = l.cutAfterIPv6(data)
	length, err := udpLength(l.udp, l.config, LayerTypeFCN, data, df)
	if err != nil {
		return err
	}
	m, err := fcn.FromDatagram(&rocev2.Datagram{Data: data, Length: length})
	if err != nil {
		return refuse(err, df)
	}
	l.BaseLayer = layers.BaseLayer{Contents: data}
	l.Message = m
	return nil
}

// SerializeTo prepends the 4 octets.
func (l *FCN) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	var buf [fcn.Size]byte
	octets, err := l.AppendBinary(buf[:0])
	return prepend(b, octets, err)
}
