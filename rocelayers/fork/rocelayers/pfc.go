// Code generated from rocelayers/pfc.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"errors"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/pfc"
)

// FlowControl is Ethernet flow control: a PFC or PAUSE frame without its Ethernet header. [RegisterFlowControl] claims
// the EtherType. The payload is padding.
type FlowControl struct {
	layers.BaseLayer
	final
	Opcode uint16    // pfc.OpcodePFC or pfc.OpcodePause: which of the two is set, the other is zero
	PFC    pfc.PFC   // single priorities
	Pause  pfc.Pause // the whole link
}

// DecodeFromBytes sets l from the octets after the EtherType, which it aliases. The errors are those of package pfc;
// for other MAC control frames the error is of rocecn.ErrOther. On error l is unchanged.
func (l *FlowControl) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	opcode, err := pfc.Opcode(data)
	next, rest := FlowControl{Opcode: opcode}, data
	if err == nil && opcode == pfc.OpcodePause {
		rest, err = next.Pause.Decode(data)
	} else if err == nil {
		rest, err = next.PFC.Decode(data) // or an error about the opcode
	}
	if err != nil {
		return refuse(err, df)
	}
	next.BaseLayer = layers.BaseLayer{Contents: data[:len(data)-len(rest)], Payload: rest}
	*l = next
	return nil
}

// SerializeTo prepends the frame from its opcode on, without padding: gopacket's
// Ethernet layer pads when it fixes lengths.
func (l *FlowControl) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	var buf [pfc.Size]byte
	octets, err := buf[:0], errOpcode
	switch l.Opcode {
	case pfc.OpcodePFC:
		octets, err = l.PFC.AppendBinary(octets)
	case pfc.OpcodePause:
		octets, err = l.Pause.AppendBinary(octets)
	}
	return prepend(b, octets, err)
}

func decodeFlowControl(data []byte, p gopacket.PacketBuilder) error {
	err := decodeAs[FlowControl](data, p)
	if errors.Is(err, wireerr.Other) {
		return p.NextDecoder(gopacket.LayerTypePayload)
	}
	return err
}

// RegisterFlowControl makes the EtherType of MAC control frames lead to
// [FlowControl]; other frames of this EtherType stay payload. Call it before
// decoding starts: gopacket's table has no lock.
func RegisterFlowControl() {
	layers.EthernetTypeMetadata[pfc.EtherType] = layers.EnumMetadata{
		DecodeWith: gopacket.DecodeFunc(decodeFlowControl), Name: "MACControl", LayerType: LayerTypeFlowControl,
	}
}
