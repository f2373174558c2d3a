package rocelayers

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	ErrCut       = wireerr.New("rocelayers: BTH: the packet is cut, or gopacket takes it for cut: set BTH.UDP to tell", wireerr.Truncated)
	ErrSerialize = wireerr.New("rocelayers: BTH: its ICRC covers the IP and UDP layers: compute it with rocelayers.SerializeLayers and give it these", wireerr.Malformed)
)

// BTH is the Base Transport Header with the extended headers that its opcode
// calls for, and what the transport puts behind the payload:
//
//	Headers | Payload | Padding | ICRC
//
// Contents is the headers; Payload is what stands between them and the pad, of
// an unknown opcode everything up to the ICRC.
//
// NewPacket adds the layers in this order: BTH, then the [CNP] or a
// gopacket.Payload unless the payload is empty, then the [ICRC]. In a
// DecodingLayerParser the chain goes from the BTH to the CNP or Payload and
// ends there; the ICRC is in the field of the BTH.
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
}

// LayerType returns LayerTypeBTH.
func (l *BTH) LayerType() gopacket.LayerType { return LayerTypeBTH }

// CanDecode returns LayerTypeBTH.
func (l *BTH) CanDecode() gopacket.LayerClass { return LayerTypeBTH }

// NextLayerType returns LayerTypeCNP for opcode 0x81 with P clear (PPFC sets
// it), otherwise gopacket.LayerTypePayload. A payload that the capture cut is
// never more than that.
func (l *BTH) NextLayerType() gopacket.LayerType {
	if l.Opcode == bth.CNP && l.Resv6&bth.P == 0 && len(l.Payload) == l.PayloadLen {
		return LayerTypeCNP
	}
	return gopacket.LayerTypePayload
}

// DecodeFromBytes sets l from the UDP data, which it aliases. The errors are
// those of [rocev2.Packet.Decode], and ErrCut. A packet that the capture cut
// decodes if its headers are whole and UDP is set: gopacket, in contrast to
// package rocev2, has no other word for packets whose length fields lie.
// On error l is unchanged.
func (l *BTH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	var p rocev2.Packet
	length, err := l.length(data, df)
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
	headers, end := p.BTH.Len(), len(data)-icrcSize
	l.BaseLayer = layers.BaseLayer{Contents: data[:headers], Payload: p.Payload}
	l.Headers = p.BTH
	l.Padding = p.Padding
	l.PayloadLen = p.PayloadLen()
	l.Truncated = p.Truncated
	if p.Truncated {
		l.ICRC = ICRC{}
		return nil
	}
	return l.ICRC.DecodeFromBytes(data[end:], df)
}

// length returns the length field of the UDP header before data, or what it
// must be when there is none to look at.
func (l *BTH) length(data []byte, df gopacket.DecodeFeedback) (uint16, error) {
	n := len(data) + 8
	switch {
	case l.UDP == nil && truncated(df):
		return 0, ErrCut
	case l.UDP == nil && n > 0xFFFF:
		return 0, rocev2.ErrTooLong
	case l.UDP == nil:
		return uint16(n), nil
	case !l.meant():
		return 0, rocev2.ErrPort
	case int(l.UDP.Length) < n: // gopacket takes 0 for a jumbogram
		return 0, rocev2.ErrUDPLength
	}
	return l.UDP.Length, nil
}

// meant tells whether the destination port leads to the BTH. gopacket also
// goes by the source port, for other traffic that happens to come from 4791.
func (l *BTH) meant() bool { return l.UDP.DstPort.LayerType() == LayerTypeBTH }

// truncated tells whether a layer before has found the packet cut.
func truncated(df gopacket.DecodeFeedback) bool {
	switch df := df.(type) {
	case *gopacket.DecodingLayerParser:
		return df.Truncated
	case gopacket.Packet:
		return df.Metadata().Truncated
	}
	return false
}

func decodeBTH(data []byte, p gopacket.PacketBuilder) error {
	l := &BTH{UDP: udpBefore(p)}
	if l.UDP != nil && !l.meant() {
		return p.NextDecoder(gopacket.LayerTypePayload)
	}
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
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

// udpBefore returns the UDP layer that was decoded last, nil when the last
// layer is another.
func udpBefore(p gopacket.PacketBuilder) *layers.UDP {
	packet, ok := p.(gopacket.Packet)
	if !ok {
		return nil
	}
	before := packet.Layers()
	if len(before) == 0 {
		return nil
	}
	udp, _ := before[len(before)-1].(*layers.UDP)
	return udp
}

// SerializeTo prepends the headers to the payload in b and puts pad and ICRC
// behind it. With FixLengths it sets Pad to what makes the payload a multiple
// of 4, for those opcodes that have a pad; without, Padding must have as many
// octets as Pad says, or be nil. The ICRC is that of an ICRC layer given
// behind the payload, or else l.ICRC.
//
// With ComputeChecksums it returns ErrSerialize, because the ICRC covers what
// is not yet in b: [SerializeLayers] is the way.
func (l *BTH) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	if opts.ComputeChecksums {
		return ErrSerialize
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
		return nil, rocev2.ErrPaddingSize
	}
	return l.Padding, nil
}

var zeros [3]byte
