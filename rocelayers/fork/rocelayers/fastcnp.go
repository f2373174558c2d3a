// Code generated from rocelayers/fastcnp.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"cmp"
	"fmt"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
)

// FastCNP is a Fast CNP (FAST section 4). It stands where a [CNP] would, behind
// the [BTH], and like that its own octets are the 16 reserved ones. The option
// that makes it a Fast CNP stands in the Destination Options.
//
// The original destination and the trace are in Option, the queue pair is
// CNP.DestQP, and Origin tells a switch on the way from the receiver.
//
// The option types (D2) are those of the [Stack]'s Config; NewPacket goes by
// the default ones, and [BTH.FastCNP] by any.
type FastCNP struct {
	layers.BaseLayer
	fastcnp.Notification

	inBTH
}

// foundFastCNP is the Fast CNP that decoding a BTH found, for the FastCNP layer
// to take.
type foundFastCNP struct {
	is           bool // there is one, perhaps broken
	unknown      bool // there is none, but an option of another type that must not be skipped
	notification fastcnp.Notification
	err          error
}

// look looks for a Fast CNP in a packet, which has Ext if it has any.
func (f *foundFastCNP) look(p *rocev2.Packet, points fastcnp.CodePoints) {
	f.is, f.unknown = false, false
	if p.BTH.Opcode == bth.CNP && len(p.Ext) > 0 {
		f.err = f.notification.DecodePacket(p, points)
		if f.is = f.err != fastcnp.ErrNotFastCNP; !f.is {
			_, err := cnp.FromPacket(p)
			f.unknown = err == cnp.ErrOption
		}
	}
}

// FastCNP returns the Fast CNP that the packet of a decoded BTH is with options
// of these types, whatever types decoding looked for. The errors are those of
// [fastcnp.CodePoints.FromPacket], and one where the IP layers of the packet are
// not known. The trace aliases the packet. It allocates nothing.
func (l *BTH) FastCNP(points fastcnp.CodePoints) (fastcnp.Notification, error) {
	var p rocev2.Packet
	if err := l.packet(&p); err != nil {
		return fastcnp.Notification{}, err
	}
	return points.FromPacket(&p)
}

// DecodeFromBytes sets l to what the BTH layer before it has found; data is the
// payload of that, and l aliases both. The errors are those of [BTH.FastCNP],
// and one without a BTH layer. On error l is unchanged.
func (l *FastCNP) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	switch {
	case l.bth == nil:
		return errNoBTH
	case !l.bth.fast.is:
		return fastcnp.ErrNotFastCNP
	case l.bth.fast.err != nil:
		return l.bth.fast.err
	}
	l.BaseLayer = layers.BaseLayer{Contents: data}
	l.Notification = l.bth.fast.notification
	return nil
}

// DestinationOptions returns the header that a packet with this layer has in
// front of the UDP layer, with Option in it, of OptionType or, where that is
// 0, fastcnp.Option1Type or fastcnp.Option2Type.
//
// D3: option 1 stands at 4n+2, right behind the first two octets of the
// header; option 2 at 4n, behind a PadN of 2.
func (l *FastCNP) DestinationOptions() (*DestinationOptions, error) {
	data, err := l.Option.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	typ, y := l.optionType(), 0
	if l.Option.Number == 1 {
		y = 2
	}
	if typ&0xE0 != 0x80 {
		return nil, wireerr.OptionType // D21: act 10, chg 0
	}
	w := ipv6opt.Begin(nil, uint8(layers.IPProtocolUDP))
	if err := w.Add(typ, 4, y, data); err != nil {
		return nil, err
	}
	header := new(DestinationOptions)
	_, err = header.Decode(w.Finish())
	return header, err
}

// optionType returns the type that Option is written with.
func (l *FastCNP) optionType() ipv6opt.Type {
	if l.Option.Number == 1 {
		return cmp.Or(l.OptionType, fastcnp.Option1Type)
	}
	return cmp.Or(l.OptionType, fastcnp.Option2Type)
}

// SerializeTo prepends the reserved octets, CNP.Reserved. The rest of the
// notification is for other layers to write: the one that DestinationOptions
// returns, the BTH with the header of CNP, IPv6. [SerializeLayers] refuses a
// CNP.Header that is neither zero nor that of the BTH, and an Option that is not
// in a Destination Options layer before UDP.
func (l *FastCNP) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	return prepend(b, l.CNP.Reserved[:], nil)
}

// String returns what the notification says, in a line.
func (l *FastCNP) String() string {
	s := fmt.Sprintf("Option %d OriginalDst %v DestQP 0x%06x Origin %v",
		l.Option.Number, l.Option.OriginalDst, l.CNP.DestQP, l.Origin())
	if l.Option.Number == 2 {
		s += fmt.Sprintf(" Namespace %d Nodes %d", l.Option.Trace.Namespace, nodes(&l.Option.Trace))
	}
	return s
}
