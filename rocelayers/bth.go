package rocelayers

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	ErrCut        = wireerr.New("rocelayers", "packet", 0, "cut, or gopacket takes it for cut: set the UDP field of the layer to tell", wireerr.Truncated)
	ErrNoCarriage = wireerr.New("rocelayers", "BTH", 0, "no IP and UDP layers before it, which its ICRC covers", wireerr.Malformed)
	ErrSerialize  = wireerr.New("rocelayers", "BTH", 0, "its ICRC covers the IP and UDP layers: compute it with rocelayers.SerializeLayers and give it these", wireerr.Malformed)
)

// BTH is the Base Transport Header with the extended headers that its opcode
// calls for, and what the transport puts behind the payload:
//
//	Headers | Payload | Padding | ICRC
//
// Contents is the headers; Payload is what stands between them and the pad, of
// an unknown opcode everything up to the ICRC.
//
// NewPacket adds the layers in this order: BTH, then [CNP], [FastCNP], [PPFC]
// or a gopacket.Payload unless the payload is empty, then the [ICRC]. In a
// DecodingLayerParser the chain goes from the BTH to the layer of the payload
// and ends there; the ICRC is in the field of the BTH.
type BTH struct {
	layers.BaseLayer
	bth.Headers

	// Padding is the pad octets, as many as Pad says. SerializeTo takes nil for
	// zeros.
	Padding    []byte
	PayloadLen int  // octets of payload that were sent; more than len(Payload) when the capture cut them
	Truncated  bool // the capture cut the packet before its end; ICRC is zero then
	ICRC       ICRC

	// UDP is the layer that carries the BTH: its length tells a cut packet from
	// a whole one, its port whether the BTH was meant. NewPacket sets it. With a
	// DecodingLayerParser set it once, to the parser's UDP layer. Left nil, the
	// octets are taken for whole, and there is ErrCut when gopacket says that
	// they are not, which it always says where there is a Hop-by-Hop header.
	UDP *layers.UDP

	// IPv6 is the layer in whose extension headers the option stands that makes
	// a CNP a Fast CNP. NewPacket sets it. With a DecodingLayerParser set it
	// once, to the parser's IPv6 layer; what that holds may be left over from an
	// earlier packet. Left nil, a Fast CNP is just a CNP.
	IPv6       *layers.IPv6
	CodePoints fastcnp.CodePoints // the option types that decoding looks for (D2)

	fast foundFastCNP
}

// LayerType returns LayerTypeBTH.
func (l *BTH) LayerType() gopacket.LayerType { return LayerTypeBTH }

// CanDecode returns LayerTypeBTH.
func (l *BTH) CanDecode() gopacket.LayerClass { return LayerTypeBTH }

// NextLayerType returns, for opcode 0x81, LayerTypePPFC where P is set,
// LayerTypeFastCNP where the packet has a Fast CNP option, broken or not, and
// otherwise LayerTypeCNP. For other opcodes it returns
// gopacket.LayerTypePayload. A payload that the capture cut is never more than
// that.
func (l *BTH) NextLayerType() gopacket.LayerType {
	switch {
	case l.Opcode != bth.CNP || len(l.Payload) != l.PayloadLen:
		return gopacket.LayerTypePayload
	case l.Resv6&bth.PPFCBit != 0:
		return LayerTypePPFC
	case l.fast.is:
		return LayerTypeFastCNP
	}
	return LayerTypeCNP
}

// DecodeFromBytes sets l from the UDP data, which it aliases. The errors are
// those of [rocev2.Packet.Decode], ErrCut, and for opcode 0x81 without anything
// behind the BTH that of package cnp or ppfc. A packet that the capture cut
// decodes if its headers are whole and UDP is set: gopacket, in contrast to
// package rocev2, has no other word for packets whose length fields lie.
// On error l is unchanged.
func (l *BTH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	var p rocev2.Packet
	length, err := udpLength(l.UDP, LayerTypeBTH, data, df)
	if err != nil {
		return err
	}
	p.Data, p.Length, p.Truncated = data, length, len(data) < int(length)-8
	if err := p.DecodeDatagram(&p.Datagram); err != nil {
		if errors.Is(err, wireerr.Truncated) {
			df.SetTruncated()
		}
		return err
	}
	if p.BTH.Opcode == bth.CNP && !p.Truncated && len(p.Payload) == 0 { // no decoder is called for nothing
		if p.BTH.Resv6&bth.PPFCBit != 0 {
			return ppfc.ErrLength
		}
		return cnp.ErrLength
	}
	l.Contents, l.Payload = data[:p.BTH.Len()], p.Payload
	l.Headers = p.BTH
	l.Padding = p.Padding
	l.PayloadLen = len(p.Payload)
	l.Truncated = p.Truncated
	if p.Truncated {
		l.PayloadLen = p.PayloadLen()
		l.ICRC = ICRC{}
	} else {
		end := len(data) - icrcSize
		l.ICRC = ICRC{BaseLayer: layers.BaseLayer{Contents: data[end:]}, Value: p.ICRC}
	}
	l.findFastCNP()
	return nil
}

func decodeBTH(data []byte, p gopacket.PacketBuilder) error {
	before := layersBefore(p)
	l := &BTH{UDP: last[*layers.UDP](before), IPv6: ipv6Around(before)}
	if !meant(l.UDP, LayerTypeBTH) {
		return p.NextDecoder(gopacket.LayerTypePayload)
	}
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	addIOAM(p, before)
	p.AddLayer(l)
	// Not by NextDecoder, which has to be last and so leaves no place for a
	// trailer.
	if len(l.Payload) > 0 {
		if err := l.NextLayerType().Decode(l.Payload, p); err != nil {
			return err
		}
	}
	if !l.Truncated {
		p.AddLayer(&l.ICRC)
	}
	return nil
}

// SerializeTo prepends the headers to the payload in b and puts pad and ICRC
// behind it. With FixLengths it sets Pad to what makes the payload a multiple
// of 4, for those opcodes that have a pad; without, Padding must have as many
// octets as Pad says, or be nil. The ICRC is that of an ICRC layer given
// behind the payload, or else l.ICRC.
//
// With ComputeChecksums it returns ErrSerialize, because the ICRC covers what
// is not yet in b: [SerializeLayers] is the way. Of a Truncated packet nothing
// can be written: rocev2.ErrCut.
func (l *BTH) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	switch {
	case opts.ComputeChecksums:
		return ErrSerialize
	case l.Truncated:
		return rocev2.ErrCut
	}
	sealed := slices.Contains(b.Layers(), LayerTypeICRC)
	payload := len(b.Bytes())
	if sealed {
		payload -= icrcSize
	}
	if opts.FixLengths {
		l.fixPad(payload)
	}
	pad, err := l.pad()
	if err != nil {
		return err
	}
	headers, err := b.PrependBytes(l.Len())
	if err != nil {
		return err
	}
	if _, err := l.AppendBinary(headers[:0]); err != nil {
		return err
	}
	payload += len(headers)
	more := len(pad) + icrcSize
	if sealed {
		more = len(pad)
	}
	if _, err := b.AppendBytes(more); err != nil {
		return err
	}
	trailer := b.Bytes()[payload:]
	if sealed {
		copy(trailer[len(pad):], trailer[:icrcSize])
	} else {
		binary.LittleEndian.PutUint32(trailer[len(pad):], l.ICRC.Value)
	}
	copy(trailer, pad)
	return nil
}

// padded tells whether the opcode has a pad: an unknown one has nothing that
// is known, and a CNP has no pad.
func (l *BTH) padded() bool { return l.Opcode.Known() && l.Opcode != bth.CNP }

// fixPad makes Pad and Padding right for so many octets of payload.
func (l *BTH) fixPad(payload int) {
	if !l.padded() {
		return
	}
	l.Pad = uint8(-payload & 3)
	if len(l.Padding) != int(l.Pad) {
		l.Padding = nil
	}
}

// pad returns the octets to put between payload and ICRC.
func (l *BTH) pad() ([]byte, error) {
	switch {
	case !l.padded():
		return nil, nil
	case l.Padding == nil && l.Pad <= 3:
		return zeros[:l.Pad], nil
	case len(l.Padding) != int(l.Pad):
		return nil, errPadding
	}
	return l.Padding, nil
}

var zeros [3]byte
