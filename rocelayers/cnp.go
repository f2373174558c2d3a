package rocelayers

import (
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/cnp"
)

// CNP is the 16 reserved octets that follow the BTH of a Congestion
// Notification Packet (IBTA annex A17.9.3). What the packet says is in the
// [BTH]: the queue pair that is to slow down and the P_Key.
//
// cnp.CNP{Header: l.Header, Reserved: c.Reserved}, of a BTH layer l and a CNP
// layer c, has a Validate method that names every deviation from the annex.
type CNP struct {
	layers.BaseLayer
	Reserved [cnp.ReservedSize]byte // zero on send, ignored on receipt, kept
}

// LayerType returns LayerTypeCNP.
func (l *CNP) LayerType() gopacket.LayerType { return LayerTypeCNP }

// CanDecode returns LayerTypeCNP.
func (l *CNP) CanDecode() gopacket.LayerClass { return LayerTypeCNP }

// NextLayerType returns LayerTypeZero: only the ICRC follows, which the BTH
// layer has.
func (l *CNP) NextLayerType() gopacket.LayerType { return gopacket.LayerTypeZero }

// DecodeFromBytes sets l from the octets between BTH and ICRC, which it
// aliases. Anything but 16 octets is [cnp.ErrLength].
func (l *CNP) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if len(data) != cnp.ReservedSize {
		return cnp.ErrLength
	}
	l.BaseLayer = layers.BaseLayer{Contents: data}
	l.Reserved = [cnp.ReservedSize]byte(data)
	return nil
}

// SerializeTo prepends the reserved octets.
func (l *CNP) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	octets, err := b.PrependBytes(cnp.ReservedSize)
	if err != nil {
		return err
	}
	copy(octets, l.Reserved[:])
	return nil
}

// String returns the reserved octets in hexadecimal, "Reserved 0" when they
// are what they should be.
func (l *CNP) String() string {
	if l.Reserved == [cnp.ReservedSize]byte{} {
		return "Reserved 0"
	}
	return fmt.Sprintf("Reserved 0x%x", l.Reserved)
}

func decodeCNP(data []byte, p gopacket.PacketBuilder) error {
	l := new(CNP)
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	return nil
}
