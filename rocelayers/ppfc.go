package rocelayers

import (
	"fmt"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/ppfc"
)

// PPFC is the extension that follows the BTH of a PPFC notification (PPFC
// section 3), which has opcode 0x81 and the P bit.
//
// The notification's Header is that of the [BTH]. NewPacket sets BTH; with a
// DecodingLayerParser set it once, to the parser's BTH layer. Left nil, Header
// has the opcode and the P bit alone.
type PPFC struct {
	layers.BaseLayer
	ppfc.Notification

	BTH *BTH
}

// LayerType returns LayerTypePPFC.
func (l *PPFC) LayerType() gopacket.LayerType { return LayerTypePPFC }

// CanDecode returns LayerTypePPFC.
func (l *PPFC) CanDecode() gopacket.LayerClass { return LayerTypePPFC }

// NextLayerType returns LayerTypeZero: only the ICRC follows, which the BTH
// layer has.
func (l *PPFC) NextLayerType() gopacket.LayerType { return gopacket.LayerTypeZero }

// DecodeFromBytes sets l from the octets between BTH and ICRC, which it
// aliases. Anything but 12 or 24 octets is [ppfc.ErrLength]; a BTH that is no
// PPFC notification's gives the errors of [ppfc.Notification.Decode]. On error
// l is unchanged.
func (l *PPFC) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) != ppfc.SizeIPv4 && len(data) != ppfc.SizeIPv6 {
		return ppfc.ErrLength
	}
	header := ppfcHeader
	if l.BTH != nil {
		header = l.BTH.Header
	}
	var buf [bth.Size + ppfc.SizeIPv6]byte
	octets, err := header.AppendBinary(buf[:0])
	if err != nil {
		return err
	}
	var n ppfc.Notification
	if err := n.Decode(append(octets, data...)); err != nil {
		return err
	}
	l.BaseLayer = layers.BaseLayer{Contents: data}
	l.Notification = n
	return nil
}

// ppfcHeader is the least that makes a BTH that of a notification.
var ppfcHeader = bth.Header{Opcode: bth.CNP, Resv6: bth.PPFCBit}

// SerializeTo prepends the extension. Header is for the BTH layer to write.
func (l *PPFC) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	n := l.Notification
	n.Header = ppfcHeader
	octets, err := n.MarshalBinary()
	if err != nil {
		return err
	}
	room, err := b.PrependBytes(len(octets) - bth.Size)
	copy(room, octets[bth.Size:])
	return err
}

// String returns the fields of the extension, those that mean nothing yet
// where they are not 0.
func (l *PPFC) String() string {
	s := fmt.Sprintf("%v Congested %v Port %d Pause %dµs", l.Type, l.Congested, l.Port, l.Pause/time.Microsecond)
	if l.Flags|l.Reserved != 0 {
		s += fmt.Sprintf(" Flags 0x%04x Reserved 0x%04x", l.Flags, l.Reserved)
	}
	return s
}

func decodePPFC(data []byte, p gopacket.PacketBuilder) error {
	l := &PPFC{BTH: last[*BTH](layersBefore(p))}
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	return nil
}
