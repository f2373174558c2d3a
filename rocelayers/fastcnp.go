package rocelayers

import (
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
)

// ErrFastCNPAlone: decoding found no BTH to ask.
var ErrFastCNPAlone = wireerr.New("rocelayers", "FastCNP", 0, "there is no BTH layer: set the field BTH", wireerr.Malformed)

// FastCNP is a Fast CNP (FAST section 4). It stands where a [CNP] would, behind
// the [BTH], and like that its own octets are the 16 reserved ones. The option
// that makes it a Fast CNP stands in the Destination Options.
//
// The original destination and the trace are in Option, the queue pair is
// CNP.DestQP, and Origin tells a switch on the way from the receiver.
//
// With a DecodingLayerParser set BTH once, to the parser's BTH layer, and IPv6
// of that. The option types are the BTH's CodePoints; NewPacket goes by the
// default ones, and [BTH.FastCNP] by any.
type FastCNP struct {
	layers.BaseLayer
	fastcnp.Notification

	BTH *BTH
}

// foundFastCNP is the Fast CNP that decoding a BTH found, for the FastCNP layer
// to take.
type foundFastCNP struct {
	is           bool // there is one, perhaps broken
	notification fastcnp.Notification
	err          error
}

func (l *BTH) findFastCNP() {
	l.fast.is = false
	if l.Opcode == bth.CNP && l.hasExtensions() {
		l.fast.notification, l.fast.err = l.FastCNP(l.CodePoints)
		l.fast.is = l.fast.err != fastcnp.ErrNotFastCNP
	}
}

// FastCNP returns the Fast CNP that the packet of a decoded BTH is with options
// of these types, whatever CodePoints says. The errors are those of
// [fastcnp.CodePoints.FromPacket]; a BTH without IPv6, or with one that does
// not carry it, is ErrNotFastCNP. The trace aliases the packet. It allocates
// nothing.
func (l *BTH) FastCNP(points fastcnp.CodePoints) (fastcnp.Notification, error) {
	var p rocev2.Packet
	if !l.walk(&p) {
		return fastcnp.Notification{}, fastcnp.ErrNotFastCNP
	}
	return points.FromPacket(&p)
}

// walk decodes the packet that l.IPv6 was decoded from, if it has extension
// headers. It tells whether that leads to l: the layer may be of a packet
// before.
func (l *BTH) walk(p *rocev2.Packet) bool {
	if len(l.Contents) == 0 || !l.hasExtensions() {
		return false
	}
	ip, err := octets(l.IPv6)
	if err != nil || p.Datagram.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: true}) != nil {
		return false
	}
	return len(p.Data) > 0 && &p.Data[0] == &l.Contents[0] && p.DecodeDatagram(&p.Datagram) == nil
}

// hasExtensions tells whether there may be extension headers before l.
func (l *BTH) hasExtensions() bool {
	return l.IPv6 != nil && l.IPv6.NextHeader != layers.IPProtocolUDP
}

// LayerType returns LayerTypeFastCNP.
func (l *FastCNP) LayerType() gopacket.LayerType { return LayerTypeFastCNP }

// CanDecode returns LayerTypeFastCNP.
func (l *FastCNP) CanDecode() gopacket.LayerClass { return LayerTypeFastCNP }

// NextLayerType returns LayerTypeZero: only the ICRC follows, which the BTH
// layer has.
func (l *FastCNP) NextLayerType() gopacket.LayerType { return gopacket.LayerTypeZero }

// DecodeFromBytes sets l to what l.BTH, decoded before, has found; data is the
// payload of that, and l aliases both. The errors are those of [BTH.FastCNP],
// and ErrFastCNPAlone. On error l is unchanged.
func (l *FastCNP) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	switch {
	case l.BTH == nil:
		return ErrFastCNPAlone
	case !l.BTH.fast.is:
		return fastcnp.ErrNotFastCNP
	case l.BTH.fast.err != nil:
		return l.BTH.fast.err
	}
	l.BaseLayer = layers.BaseLayer{Contents: data}
	l.Notification = l.BTH.fast.notification
	return nil
}

// DestinationOptions returns the header that a packet with this layer has in
// front of the UDP layer, with Option in it, of OptionType or, where that is
// 0, fastcnp.ExperimentalType.
//
// D3: option 1 stands at 4n+2, right behind the first two octets of the
// header; option 2 at 4n, behind a PadN of 2.
func (l *FastCNP) DestinationOptions() (*DestinationOptions, error) {
	data, err := l.Option.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	typ, y := l.OptionType, 0
	if typ == 0 {
		typ = fastcnp.ExperimentalType
	}
	if l.Option.Number == 1 {
		y = 2
	}
	w := ipv6opt.Begin(nil, uint8(layers.IPProtocolUDP))
	if err := w.Add(typ, 4, y, data); err != nil {
		return nil, err
	}
	header := new(DestinationOptions)
	_, err = header.Decode(w.Finish())
	return header, err
}

// SerializeTo prepends the reserved octets, CNP.Reserved. The rest of the
// notification is for other layers to write: the one that DestinationOptions
// returns, the BTH with the header of CNP, IPv6.
func (l *FastCNP) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	reserved := CNP{Reserved: l.CNP.Reserved}
	return reserved.SerializeTo(b, opts)
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

func decodeFastCNP(data []byte, p gopacket.PacketBuilder) error {
	l := &FastCNP{BTH: last[*BTH](layersBefore(p))}
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(l)
	return nil
}
