// Code generated from rocelayers/icrc.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/rocecn/rocecn/icrc"
)

const icrcSize = 4

// ICRC is the invariant CRC, the last four octets of the UDP data (IBTA annex A17, section A17.3.3). [BTH.VerifyICRC]
// reports whether it is right.
type ICRC struct {
	layers.BaseLayer
	final
	Value    uint32        // sent least significant octet first
	Coverage icrc.Coverage // how [SerializeLayers] computes it; set by [BTH.VerifyICRC], to AsSent by decoding
}

// DecodeFromBytes sets l from exactly four octets, which it aliases.
func (l *ICRC) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) != icrcSize {
		return errICRCSize
	}
	*l = ICRC{
		BaseLayer: layers.BaseLayer{Contents: data},
		Value:     binary.LittleEndian.Uint32(data),
	}
	return nil
}

// SerializeTo appends Value. [SerializeLayers] computes it.
func (l *ICRC) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	if slices.Contains(b.Layers(), LayerTypeBTH) {
		return errICRCOrder
	}
	return l.writeICRC(b)
}

func (l *ICRC) writeICRC(b gopacket.SerializeBuffer) error {
	octets, err := b.AppendBytes(icrcSize)
	if err == nil {
		binary.LittleEndian.PutUint32(octets, l.Value)
	}
	return err
}

// String returns the value.
func (l *ICRC) String() string { return fmt.Sprintf("0x%08x", l.Value) }
