// Code generated from rocelayers/cnp.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// CNP is a Congestion Notification Packet (IBTA annex A17.9.3). DestQP is the queue pair that is to slow down. The
// layer's own octets are the 16 reserved ones after the BTH; the Header is that of the [BTH] layer before it. Validate
// names every deviation from the annex.
//
// A packet with a Fast CNP option has a [FastCNP] layer instead. If a packet has another option that a host must not
// skip unless it knows it, its 16 octets are a gopacket.Payload; the error of [BTH.CNP] gives the reason.
type CNP struct {
	layers.BaseLayer
	cnp.CNP

	inBTH
}

// CNP returns the decoded packet as a CNP, for a host to act on. If the Destination Options hold an option that a host
// must not skip unless it knows it, the error is [cnp.ErrOption]: the packet may be a Fast CNP with an option type that
// is not configured here, in which DestQP is the queue pair of another node. Other errors are those of
// [cnp.FromPacket], and an error if the IP layers of the packet are not known. CNP allocates nothing.
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

// SerializeTo prepends the reserved octets. The BTH layer writes Header; [SerializeLayers] rejects a Header that is
// neither zero nor that of the BTH.
func (l *CNP) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	return prepend(b, l.Reserved[:], nil)
}
