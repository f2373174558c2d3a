// Code generated from rocelayers/cnp.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// CNP is a Congestion Notification Packet (IBTA annex A17.9.3): the queue pair
// that is to slow down is DestQP. Its own octets are the 16 reserved ones
// behind the BTH; the Header is that of the [BTH] layer before it. Validate
// names every deviation from the annex.
//
// A packet with a Fast CNP option is none; it has a [FastCNP] layer instead.
// Nor is one with another option that a host which does not know it must not
// skip: its 16 octets are a gopacket.Payload, and [BTH.CNP] says why.
type CNP struct {
	layers.BaseLayer
	cnp.CNP

	inBTH
}

// CNP returns the CNP that the packet of a decoded BTH is, for a host to act
// on. Where the Destination Options hold an option that a host which does not
// know it must not skip, the error is [cnp.ErrOption]: it may be a Fast CNP with
// an option type that is not configured here, whose DestQP is the queue pair of
// another node. Other errors are those of [cnp.FromPacket], and one where the IP
// layers of the packet are not known. It allocates nothing.
func (l *BTH) CNP() (cnp.CNP, error) {
	var p rocev2.Packet
	if err := l.packet(&p); err != nil {
		return cnp.CNP{}, err
	}
	return cnp.FromPacket(&p)
}

// DecodeFromBytes sets l from the octets between BTH and ICRC, which it
// aliases, and the BTH layer decoded before. Anything but 16 octets is an
// error, and so is no BTH layer. On error l is unchanged.
func (l *CNP) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	switch {
	case l.bth == nil:
		return errNoBTH
	case len(data) != cnp.ReservedSize:
		return wireerr.CNPLength
	}
	l.BaseLayer = layers.BaseLayer{Contents: data}
	l.Header = l.bth.Header
	l.Reserved = [cnp.ReservedSize]byte(data)
	return nil
}

// SerializeTo prepends the reserved octets. Header is for the BTH layer to write;
// [SerializeLayers] refuses one that is neither zero nor that of the BTH.
func (l *CNP) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	return prepend(b, l.Reserved[:], nil)
}
