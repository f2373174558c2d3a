package flows

import (
	"encoding/binary"
	"math"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/crc"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// A Decoder decodes packets into the fields that a [Table] needs. The zero value is ready for use
// and has the default configuration. It keeps no state between packets and is not safe for
// concurrent use.
type Decoder struct {
	Config message.Config // UDP ports and code points
	// NoICRC disables the checks of ICRCs and UDP checksums, which take most of the decoding time.
	// No packet counts as wrong then.
	NoICRC bool
	// Outer ignores the payload of mirrors and of tunnels other than IP in IP.
	Outer bool

	f rocev2.Frame
	m message.Message
}

var be = binary.BigEndian

// Decode sets p from the frame b, described by o. It returns false for invalid packets, packets
// truncated before the required fields, and other traffic. Pass them to the [Table] as well: it
// counts them.
func (d *Decoder) Decode(p *Packet, b []byte, o rocev2.DecodeOptions) bool {
	p.kind, p.tunnelled, p.nHops, p.snapLength, p.pkt.CM.Attribute = otherTraffic, false, 0, 0, 0
	p.truncatedLen, p.unread, p.outer = 0, 0, outerHeader{}
	if o.AllowTruncated {
		p.truncatedLen = uint32(len(b))
	}
	o.Outer = d.Outer
	d.f.Decode(b, o)
	if d.decodePlain(p) {
		return true
	}
	counts := d.decodeFrame(p)
	if o.AllowTruncated && (!counts || p.kind == requestKind || p.kind == answerKind || p.kind == ppfcKind &&
		p.about.QP&withoutQP != 0) {
		needs := message.SnapLength(&d.f, d.Config)
		p.snapLength = uint16(min(needs, math.MaxUint16))
		if needs > 0 && !counts {
			p.kind = truncatedKind
		}
	}
	if p.kind == otherTraffic && !d.Outer {
		p.unread = d.findUnread()
	}
	return counts
}

// decodePlain is the fast path of Decode for most packets: requests and answers of RC, UC and XRC
// in plain frames (see [rocev2.Frame.Plain]). It sets the same fields as decodeFrame. If it returns
// false, the frame needs decodeFrame.
func (d *Decoder) decodePlain(p *Packet) bool {
	ip, udp := d.f.Plain()
	if len(udp) < wire.UDPSize+bth.Size+wire.ICRCSize || wire.DstPort(udp) != rocev2.Port {
		return false
	}
	length := int(wire.UDPLength(udp))
	op := bth.Opcode(udp[wire.UDPSize])
	r, t := &roles[op], op.Transport()
	if length > len(udp) || r.kind != requestKind && r.kind != answerKind || t == bth.TransportUD ||
		t == bth.TransportRD {
		return false
	}
	h, extended := udp[wire.UDPSize:], udp[wire.UDPSize+bth.Size:]
	payload := payloadLen(h, length)
	if payload < 0 {
		return false
	}
	p.readIPHeader(ip, wire.DestQP(h))
	p.readBTH(h, payload)
	p.truncated, p.pkt.SrcPort = false, wire.SrcPort(udp)
	p.vlan, p.pcp = 0, 0
	d.readMACs(p)
	p.pkt.Syndrome, p.pkt.DMA, p.pkt.SrcQP = 0, 0, 0
	switch {
	case r.kind == answerKind && op.Headers().Has(bth.HasAETH): // the AETH is the first extended header
		p.pkt.Syndrome = bth.Syndrome(extended[0])
	case r.kind == requestKind && r.message == MessageRead: // the RETH is the last one and ends with the length
		p.pkt.DMA = be.Uint32(extended[op.HeaderLen()-4:])
	}
	if !d.NoICRC { // as icrc.Verify, which would look for the headers
		end := len(ip) - len(udp) + length - wire.ICRCSize
		p.icrcWrong = ^crc.Plain(ip[:end]) != binary.LittleEndian.Uint32(ip[end:])
	}
	return true
}

// decodeFrame is the slow path of Decode, for all kinds of frames.
func (d *Decoder) decodeFrame(p *Packet) bool {
	c := d.Config
	c.SkipVerify = true            // checked below, unless NoICRC is set
	d.m.DecodeView(d.f.Outer(), c) // the error is also in Kind
	if d.m.Kind == message.KindOther && d.f.Tunnels().Len() > 0 {
		d.m.DecodeView(d.f.Inner(), c)
	}
	switch d.m.Kind {
	case message.KindOther:
		return false
	case message.KindPFC, message.KindPause:
		p.kind = pfcKind
		p.pause = decodePause(&d.m)
		p.pause.mac = d.senderMAC()
		return true
	case message.KindError:
		return d.decodeTruncated(p)
	case message.KindData:
		if d.m.Packet.Trimmed {
			d.readTransport(p)
			p.kind = trimmedKind
			return true
		}
	case message.KindFCN:
		d.readAddresses(p, withoutQP)
		p.kind, p.label, p.ingress = fcnKind, d.m.FCN.FlowLabel, p.pkt.Flow.Dst
		p.icrcWrong = d.hasWrongChecksum()
		return true
	case message.KindProxy:
		d.readAddresses(p, withoutQP)
		p.kind, p.about, p.icrcWrong = proxyKind, key{QP: withoutQP}, d.hasWrongChecksum()
		if k, ok := d.m.FlowKey(); ok {
			p.about = keyOf(k)
		}
		return true
	}
	d.readTransport(p)
	if u := &d.m.Packet.Datagram; !p.truncated && !d.NoICRC {
		_, err := icrc.Verify(u.IP)
		p.icrcWrong = err != nil
	}
	switch d.m.Kind {
	case message.KindUnknownOption: // most likely a Fast CNP with another option type: its flow is unknown
		p.kind, p.about = fastKind, key{QP: withoutQP}
		return true
	case message.KindFastCNP:
		p.kind, p.about = fastKind, keyOf(d.m.FastCNP.FlowKey())
		if d.m.FastCNP.Option.Number == 2 {
			p.readQueues(&d.m.FastCNP.Option.Trace)
		}
		return true
	case message.KindPPFC:
		about, _ := d.m.FlowKey()
		p.kind, p.about = ppfcKind, keyOf(about)
		return true
	}
	d.readHeaders(p, &d.m.Packet.BTH)
	return p.kind != otherTraffic
}

// hasWrongChecksum reports whether the UDP checksum of a message is wrong. That of a truncated message
// is not known.
func (d *Decoder) hasWrongChecksum() bool {
	u := &d.m.Packet.Datagram
	return !d.NoICRC && !u.Truncated && u.VerifyChecksum() != nil
}

// readAddresses sets the flow key from the IP addresses.
func (d *Decoder) readAddresses(p *Packet, qp uint32) {
	u := &d.m.Packet.Datagram
	p.readIPHeader(u.IP, qp)
	if len(u.Ext) > 0 { // the final destination may differ
		p.pkt.Flow = keyOf(rocev2.FlowKey{Src: u.Src, Dst: u.FinalDst()})
		p.pkt.Flow.QP |= qp
	}
}

// readIPHeader sets the fields of an IP header.
func (p *Packet) readIPHeader(ip []byte, qp uint32) {
	p.trafficClass, p.ipOctets = wire.TrafficClass(ip), uint32(wire.Length(ip))
	src, dst := wire.AddressOctets(ip)
	if wire.IsIPv6(ip) {
		p.pkt.Flow.Src, p.pkt.Flow.Dst, p.pkt.Flow.QP, p.ident = [16]byte(src), [16]byte(dst), qp, 0
		return
	}
	p.pkt.Flow.Src, p.pkt.Flow.Dst, p.pkt.Flow.QP, p.ident = mappedPrefix, mappedPrefix, qp|overIPv4,
		wire.Identification(ip)
	*(*[4]byte)(p.pkt.Flow.Src[12:]), *(*[4]byte)(p.pkt.Flow.Dst[12:]) = [4]byte(src), [4]byte(dst)
}

// mappedPrefix is the prefix of an IPv4-mapped IPv6 address.
var mappedPrefix = [16]byte{10: 0xFF, 11: 0xFF}

// readTransport sets the fields of the frame, IP and BTH headers.
func (d *Decoder) readTransport(p *Packet) {
	u := &d.m.Packet.Datagram
	d.readAddresses(p, wire.DestQP(u.Data))
	p.readBTH(u.Data, payloadLen(u.Data, int(u.Length)))
	p.truncated, p.pkt.SrcPort = u.Truncated, u.SrcPort
	if p.truncated && p.truncatedLen == 0 && !u.Trimmed {
		p.truncatedLen = d.lengthBeforeTruncation()
	}
	p.vlan, p.pcp = 0, 0
	if id, priority, ok := d.f.VLAN(); ok {
		p.vlan, p.pcp = id, 1<<priority
	}
	d.readMACs(p)
	if len(u.Outer) > 0 {
		d.readIngress(p)
	}
	d.readOuter(p)
}

// lengthBeforeTruncation returns the length of a frame that a network device truncated. In a mirror it is that of
// the mirrored frame.
func (d *Decoder) lengthBeforeTruncation() uint32 {
	if d.f.Mirror() == nil {
		return uint32(len(d.f.Octets()))
	}
	v := d.f.Inner()
	return uint32(len(v.EthernetHeader()) + len(v.IP()))
}

// payloadLen returns the length of the payload after a BTH in a datagram with this UDP length. It is negative if the
// headers do not fit.
func payloadLen(h []byte, length int) int {
	return length - wire.UDPSize - bth.Size - bth.Opcode(h[0]).HeaderLen() - int(wire.PadCount(h)) - wire.ICRCSize
}

// readBTH sets the fields of the BTH except the queue pair, and the payload length in octets.
func (p *Packet) readBTH(h []byte, payload int) {
	op := bth.Opcode(h[0])
	p.kind, p.pkt.Opcode, p.pkt.PSN, p.pkt.AckReq = roles[op].kind, op, wire.PSN(h), wire.AckReq(h)
	p.pkt.PKey, p.pkt.Payload = wire.PKey(h), uint32(max(payload, 0))
	p.icrcWrong, p.noHeaders = false, false
}

func (p *Packet) readExtended(h *bth.Headers) {
	p.pkt.Syndrome, p.pkt.DMA, p.pkt.SrcQP = h.AETH.Syndrome, 0, h.DETH.SrcQP
	if r := &roles[h.Opcode]; r.message == MessageRead && r.kind == requestKind {
		p.pkt.DMA = h.RETH.DMALength
	}
}

// senderMAC returns the source MAC address, or the link address of a cooked capture.
func (d *Decoder) senderMAC() (mac [6]byte) {
	switch b := d.f.Octets(); d.f.Options().Link {
	case rocev2.LinkSLL:
		mac = [6]byte(b[6:])
	case rocev2.LinkSLL2:
		mac = [6]byte(b[12:])
	default:
		mac, _, _ = d.f.MACs()
	}
	return mac
}

// readMACs sets the MAC addresses of the frame.
func (d *Decoder) readMACs(p *Packet) {
	if b := d.f.Octets(); d.f.Options().Link == rocev2.LinkEthernet && len(b) >= len(p.macs) {
		p.macs = [12]byte(b)
	} else {
		p.macs = [12]byte{}
	}
}

// readIngress sets the tunnel ingress and the flow label chosen by it, if the packet is inside an IPv6 packet, and not
// below MPLS labels alone.
func (d *Decoder) readIngress(p *Packet) {
	outermost := d.f.Mirror()
	if outermost == nil {
		outermost = d.f.Outer().IP()
	}
	if len(outermost) > len(d.m.Packet.IP) && wire.Version(outermost) == wire.IPv6 {
		src, _ := wire.AddressOctets(outermost)
		p.tunnelled, p.ingress, p.label = true, [16]byte(src), wire.FlowLabel(outermost)
	}
}

// readHeaders sets the fields of the extended headers of a request or an answer.
func (d *Decoder) readHeaders(p *Packet, h *bth.Headers) {
	p.readExtended(h)
	p.noHeaders = h.Present != h.Opcode.Headers() // a network device has truncated the packet after its BTH
	if p.kind != requestKind && !roles[h.Opcode].isResponse() {
		return
	}
	u := &d.m.Packet.Datagram
	if len(u.Ext) > 0 {
		if t, err := u.Trace(); err == nil {
			p.readQueues(&t)
		}
	}
	if h.Opcode == bth.UDSendOnly && h.DestQP == 1 {
		p.pkt.CM.Set(&d.m.Packet)
	}
}

// decodeTruncated sets p from a packet that was truncated after its BTH, which is enough to count
// it.
func (d *Decoder) decodeTruncated(p *Packet) bool {
	p.kind = invalidKind
	u := &d.m.Packet.Datagram
	if d.m.Reach == message.ReachNothing || u.DstPort != rocev2.Port || !u.Truncated || len(u.Data) < bth.Size {
		return false
	}
	op := bth.Opcode(u.Data[0])
	if int(u.Length) < wire.UDPSize+bth.Size+op.HeaderLen()+wire.ICRCSize {
		return false // invalid even without truncation
	}
	d.readTransport(p)
	p.noHeaders = true
	p.pkt.DMA, p.pkt.SrcQP, p.pkt.Syndrome = 0, 0, 0
	if op == bth.CNP { // a PPFC without its address: other CNPs would be valid
		p.kind, p.about = ppfcKind, key{QP: withoutQP}
	}
	return p.kind != otherTraffic
}

// readQueues sets the queue depths in a trace.
func (p *Packet) readQueues(t *ioam.Trace) {
	for n := range t.Nodes() {
		depth, ok := n.QueueDepth()
		if !ok {
			continue
		}
		node, _ := n.ID()
		q := QueueDepth{node, depth, true}
		if p.nHops == 0 || q.Depth > p.queue.Depth {
			p.queue = q
		}
		if p.nHops < maxNodes {
			p.hops[p.nHops] = q
			p.nHops++
		}
	}
}
