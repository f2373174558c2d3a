package rocelayers

import (
	"cmp"
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
)

// FastCNP is a Fast CNP (FAST section 4). It follows the [BTH] in place of a [CNP]. Like a CNP, its own octets are the
// 16 reserved ones. The option that makes it a Fast CNP is in the Destination Options.
//
// Option holds the original destination and the trace, CNP.DestQP is the queue pair, and Origin distinguishes a switch
// on the way from the receiver.
//
// The option types (D2) are those of the [Stack]'s Config. NewPacket uses the default ones, and [BTH.FastCNP] those of
// its argument.
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

// find looks for a Fast CNP in a packet, which has Ext if it has any.
func (f *foundFastCNP) find(p *rocev2.Packet, points fastcnp.CodePoints) {
	f.is, f.unknown = false, false
	if p.BTH.Opcode == bth.CNP && len(p.Ext) > 0 {
		f.notification, f.err = fastcnp.FromPacket(p, points)
		if f.is = f.err != fastcnp.ErrNotFastCNP; !f.is {
			_, err := cnp.FromPacket(p)
			f.unknown = err == cnp.ErrOption
		}
	}
}

// FastCNP returns the decoded packet as a Fast CNP with options of these types, which may differ from those used for
// decoding. The errors are those of [fastcnp.FromPacket], and an error if the IP layers of the packet are
// not known. The trace aliases the packet. FastCNP allocates nothing.
func (l *BTH) FastCNP(points fastcnp.CodePoints) (fastcnp.Notification, error) {
	var p rocev2.Packet
	if err := l.packet(&p); err != nil {
		return fastcnp.Notification{}, err
	}
	return fastcnp.FromPacket(&p, points)
}

// DecodeFromBytes sets l to the notification found by the BTH layer before it. data is the payload of the BTH layer,
// and l aliases both. The errors are those of [BTH.FastCNP], and an error without a BTH layer. On error l is unchanged.
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

// DestinationOptions returns the header to serialize before the UDP layer, with Option in it. The option type is
// OptionType or, if that is 0, fastcnp.Option1Type or fastcnp.Option2Type.
//
// D3: option 1 begins at 4n+2, directly after the first two octets of the header; option 2 at 4n, after a PadN of 2.
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

// SerializeTo prepends the reserved octets, CNP.Reserved. Other layers write the rest of the notification: the one that
// DestinationOptions returns, the BTH with the header of CNP, and IPv6. [SerializeLayers] rejects a CNP.Header that is
// neither zero nor that of the BTH, and an Option that is not in a Destination Options layer before UDP.
func (l *FastCNP) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	return prepend(b, l.CNP.Reserved[:], nil)
}

// String returns the contents of the notification in one line.
func (l *FastCNP) String() string {
	s := fmt.Sprintf("Option %d OriginalDst %v DestQP 0x%06x Origin %v",
		l.Option.Number, l.Option.OriginalDst, l.CNP.DestQP, l.Origin())
	if l.Option.Number == 2 {
		s += fmt.Sprintf(" Namespace %d Nodes %d", l.Option.Trace.Namespace, nodes(&l.Option.Trace))
	}
	return s
}
