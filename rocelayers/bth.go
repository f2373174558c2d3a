package rocelayers

import (
	"slices"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

// BTH is the Base Transport Header with the extended headers of its opcode, and the octets that the transport appends
// to the payload:
//
//	Headers | Payload | Padding | ICRC
//
// Contents is the headers; Payload is the octets between them and the pad. For an unknown opcode Payload is everything
// up to the ICRC.
//
// NewPacket adds the layers in this order: BTH, then [CNP], [FastCNP], [PPFC], [CM]
// or a gopacket.Payload unless the payload is empty, then the [ICRC]. A [Stack]
// ends at the layer of the payload; the ICRC is in the field of the BTH.
type BTH struct {
	layers.BaseLayer
	bth.Headers

	// Padding is the pad octets, as many as Pad says. SerializeTo takes nil for
	// zeros.
	Padding    []byte
	PayloadLen int  // octets of payload that were sent; more than len(Payload) if the capture truncated them
	Truncated  bool // as in rocev2.Packet; ICRC is zero then
	Trimmed    bool // as in rocev2.Packet: a switch has trimmed the packet; only known with the IP layers
	ICRC       ICRC

	// The layers that carry the BTH. NewPacket and [Stack] set them; other callers need not. NewPacket sets one of IPv4
	// and IPv6, the innermost. A Stack sets both, of which one may be left over from an earlier packet: [Stack.IP]
	// returns the one of this packet.
	//
	// The length of UDP distinguishes a truncated packet from a complete one. The IP layers distinguish a Fast CNP from
	// a CNP, and contain the headers that the ICRC covers.
	UDP  *layers.UDP
	IPv4 *layers.IPv4
	IPv6 *layers.IPv6

	config *message.Config // of the Stack; nil for the defaults
	ip     []byte          // the IP packet around opcode 0x81
	fast   foundFastCNP
}

// NextLayerType returns, for opcode 0x81, LayerTypePPFC where P is set and the
// payload has not the 16 octets of a CNP (D18), LayerTypeFastCNP where the packet
// has a Fast CNP option, broken or not, gopacket.LayerTypePayload where it has
// another option that must not be skipped, see [BTH.CNP], and otherwise
// LayerTypeCNP. For other opcodes it returns LayerTypeCM where the payload is connection management, and
// else gopacket.LayerTypePayload. A truncated payload is never more
// than that.
func (l *BTH) NextLayerType() gopacket.LayerType {
	switch {
	case len(l.Payload) != l.PayloadLen:
		return gopacket.LayerTypePayload
	case l.carriesCM():
		return LayerTypeCM
	case l.Opcode != bth.CNP:
		return gopacket.LayerTypePayload
	case l.Resv6&ppfc.Bit != 0 && l.PayloadLen != cnp.ReservedSize:
		if l.config != nil && l.config.NoPPFC {
			return LayerTypeCNP // of a wrong length
		}
		return LayerTypePPFC
	case l.fast.is:
		return LayerTypeFastCNP
	case l.fast.unknown:
		return gopacket.LayerTypePayload
	}
	return LayerTypeCNP
}

// DecodeFromBytes sets l from the UDP data, which it aliases. The errors are those of [rocev2.Packet.Decode], and for
// opcode 0x81 with no octets after the BTH the error of a CNP or PPFC notification of another length. A packet that the
// capture truncated decodes if its headers are complete and UDP is set: only UDP distinguishes truncated packets from
// those with wrong length fields. A trimmed packet decodes if its BTH is complete; Contents then are the octets of its
// headers that are left. Without UDP the octets are taken for the whole data, unless gopacket reports that
// they are truncated. On error l is unchanged.
//
// Opcode 0x81 is rejected if the IP layers are not known: the octets of a CNP alone do not show whether it is a Fast
// CNP, in which DestQP is the queue pair of another node.
func (l *BTH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	length, err := udpLength(l.UDP, l.config, LayerTypeBTH, data, df)
	if err != nil {
		return err
	}
	var p rocev2.Packet
	var ip []byte
	if len(data) > 0 && bth.Opcode(data[0]) == bth.CNP {
		if ip, err = l.around(data, &p.Datagram); err != nil {
			return err
		}
	}
	p.Data, p.Length, p.Truncated = data, length, len(data) < int(length)-8
	if p.Truncated || endsEarly(l.IPv6) {
		p.Data, p.Trimmed = l.cutTrimmed(data)
		p.Truncated = p.Truncated || p.Trimmed
	}
	if err := p.DecodeDatagram(&p.Datagram); err != nil {
		return refuse(err, df)
	}
	if p.BTH.Opcode == bth.CNP && len(p.Payload) == 0 && p.PayloadLen() == 0 { // gopacket calls no decoder for nothing
		if p.BTH.Resv6&ppfc.Bit != 0 && (l.config == nil || !l.config.NoPPFC) {
			return wireerr.PPFCLength
		}
		return wireerr.CNPLength
	}
	l.Contents, l.Payload = data[:min(p.BTH.Len(), len(p.Data))], p.Payload
	l.Headers = p.BTH
	l.ip = ip
	l.Padding = p.Padding
	l.PayloadLen = len(p.Payload)
	l.Truncated, l.Trimmed = p.Truncated, p.Trimmed
	if p.Truncated {
		l.PayloadLen = p.PayloadLen()
		l.ICRC = ICRC{}
	} else {
		end := len(data) - icrcSize
		l.ICRC = ICRC{BaseLayer: layers.BaseLayer{Contents: data[end:]}, Value: p.ICRC}
	}
	l.fast.find(&p, l.codePoints())
	return nil
}

// cutTrimmed returns the octets of data up to the end of its IP packet, and true, if a switch has trimmed the packet.
// Otherwise, and without the IP layers, it returns data and false.
func (l *BTH) cutTrimmed(data []byte) ([]byte, bool) {
	var d rocev2.Datagram
	ip, err := l.around(data, &d)
	if err == nil && len(d.Data) == 0 {
		err = d.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true})
	}
	if err != nil || !d.Trimmed {
		return data, false
	}
	return data[:len(d.Data)], true
}

func (l *BTH) codePoints() fastcnp.CodePoints {
	if l.config == nil {
		return fastcnp.CodePoints{}
	}
	return l.config.CodePoints
}

func decodeBTH(data []byte, p gopacket.PacketBuilder) error {
	before := layersBefore(p)
	udp := last[*layers.UDP](before)
	if fromOurPort(udp, LayerTypeBTH) {
		return p.NextDecoder(gopacket.LayerTypePayload)
	}
	l := BTH{UDP: udp}
	l.IPv6, l.IPv4 = innermostIP(before)
	if err := l.DecodeFromBytes(data, p); err != nil {
		return err
	}
	addIOAM(p, before)
	switch l.NextLayerType() {
	case LayerTypeCNP:
		return add[CNP](&l, p)
	case LayerTypeFastCNP:
		return add[FastCNP](&l, p)
	case LayerTypePPFC:
		return add[PPFC](&l, p)
	case LayerTypeCM:
		return add[CM](&l, p)
	}
	return add[gopacket.Payload](&l, p)
}

// add adds a decoded BTH to a packet, the layer of its payload, which is a T,
// and the ICRC: all three at the price of one allocation. gopacket's NextDecoder
// would have to come last and so leave no place for a trailer.
func add[T any, P layer[T]](decoded *BTH, p gopacket.PacketBuilder) error {
	both := &struct {
		BTH
		payload T
	}{BTH: *decoded}
	l, payload := &both.BTH, P(&both.payload)
	p.AddLayer(l)
	if next, ok := any(payload).(interface{ setBTH(*BTH) }); ok {
		next.setBTH(l)
	}
	if len(l.Payload) > 0 {
		if err := payload.DecodeFromBytes(l.Payload, p); err != nil {
			return err
		}
		p.AddLayer(payload)
		if payload, ok := any(payload).(gopacket.ApplicationLayer); ok {
			p.SetApplicationLayer(payload)
		}
	}
	if !l.Truncated {
		p.AddLayer(&l.ICRC)
	}
	return nil
}

// decodeAlone is for the types of layers that only follow a BTH.
func decodeAlone([]byte, gopacket.PacketBuilder) error { return errNoBTH }

// SerializeTo prepends the headers to the payload in b and appends pad and ICRC. With FixLengths it sets Pad so that
// the length of the payload is a multiple of 4, for opcodes that have a pad. Without FixLengths, Padding must have Pad
// octets, or be nil. A CNP and an unknown opcode have no Padding, regardless of Pad: any Padding is an error. The ICRC
// is that of an ICRC layer after the payload if there is one, otherwise l.ICRC.
//
// The last entry of b.Layers is the layer after the BTH. If it is a [CNP], [FastCNP] or [PPFC], another opcode than
// bth.CNP is an error; if it is a PPFC, a Resv6 without ppfc.Bit is an error too.
//
// With ComputeChecksums it returns an error, because the ICRC covers headers that are not yet in b: use
// [SerializeLayers]. A Truncated packet cannot be written.
func (l *BTH) SerializeTo(b gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	switch {
	case opts.ComputeChecksums:
		return errSerialize
	case l.Truncated:
		return errTruncated
	}
	if err := l.leads(b.Layers()); err != nil {
		return err
	}
	if !slices.Contains(b.Layers(), LayerTypeICRC) {
		if err := l.ICRC.writeICRC(b); err != nil {
			return err
		}
	}
	payload := len(b.Bytes()) - icrcSize
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
	_, err = b.AppendBytes(len(pad))
	trailer := b.Bytes()[len(headers)+payload:]
	copy(trailer[len(pad):], trailer) // the ICRC
	copy(trailer, pad)
	return err
}

// padded reports whether the opcode has a pad. The headers of an unknown opcode are not known, and a CNP has no pad.
func (l *BTH) padded() bool { return l.Opcode.IsKnown() && l.Opcode != bth.CNP }

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
	wanted := 0
	if l.padded() {
		wanted = int(l.Pad)
	}
	switch {
	case l.Padding == nil && wanted <= 3:
		return zeros[:wanted], nil
	case len(l.Padding) != wanted:
		return nil, errPaddingSize
	}
	return l.Padding, nil
}

var zeros [3]byte
