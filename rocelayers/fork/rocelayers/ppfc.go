// Code generated from rocelayers/ppfc.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ppfc"
)

// PPFC is the extension that follows the BTH of a PPFC notification (PPFC
// section 3), which has opcode 0x81 and the P bit.
//
// The notification's Header is that of the [BTH] layer before it.
type PPFC struct {
	layers.BaseLayer
	ppfc.Notification

	inBTH
}

// DecodeFromBytes sets l from the octets between BTH and ICRC, which it
// aliases, and the BTH layer decoded before. Anything but 12 or 24 octets is an
// error, and so is no BTH layer; a BTH that is no PPFC
// notification's gives the errors of [ppfc.Notification.Decode]. On error l is
// unchanged.
func (l *PPFC) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	switch {
	case l.bth == nil:
		return errNoBTH
	case len(data) != ppfc.SizeIPv4 && len(data) != ppfc.SizeIPv6:
		return wireerr.PPFCLength
	}
	var buf [bth.Size + ppfc.SizeIPv6]byte
	octets, err := l.bth.Header.AppendBinary(buf[:0])
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
var ppfcHeader = bth.Header{Opcode: bth.CNP, Resv6: ppfc.Bit}

// SerializeTo prepends the extension. The BTH layer writes Header; [SerializeLayers] rejects a Header that is neither
// zero nor that of the BTH.
func (l *PPFC) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	n := l.Notification
	n.Header = ppfcHeader
	var buf [bth.Size + ppfc.SizeIPv6]byte
	octets, err := n.AppendBinary(buf[:0])
	return prepend(b, octets[min(bth.Size, len(octets)):], err)
}
