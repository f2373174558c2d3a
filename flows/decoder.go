package flows

import (
	"encoding/binary"
	"math"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// A Decoder reads what the accounting needs of packets. The zero value is ready
// and has the defaults. It keeps nothing of one packet for the next, and is not
// safe for concurrent use: have one a goroutine.
type Decoder struct {
	Config message.Config // ports and code points
	// NoICRC leaves the ICRC alone, which takes most of the time: no packet
	// counts as wrong.
	NoICRC bool
	// Outer takes packets as they are: what mirrors and tunnels other than IP in
	// IP carry does not count.
	Outer bool

	f rocev2.Frame
	m message.Message
}

var be = binary.BigEndian

// Decode sets p from the octets that o describes, whatever they are. It returns
// false for broken packets, those cut too short, and other traffic: of these a
// [Table] counts only how many there were. All packets may be given to it.
func (d *Decoder) Decode(p *Packet, b []byte, o rocev2.DecodeOptions) bool {
	p.kind, p.tunnelled, p.nHops, p.needs, p.pkt.CM.Attribute = nothing, false, 0, 0, 0
	o.Outer = d.Outer
	d.f.Decode(b, o) // what becomes of the frame says what its error would
	if d.plain(p) {
		return true
	}
	counts := d.general(p)
	if o.Cut && (!counts || p.kind == request || p.kind == answer || p.kind == ppfcKind && p.about.QP&withoutQP != 0) {
		needs := message.SnapLength(&d.f, d.Config)
		p.needs = uint16(min(needs, math.MaxUint16))
		if needs > 0 && !counts {
			p.kind = cutShort
		}
	}
	return counts
}

// general is Decode for any packet.
func (d *Decoder) general(p *Packet) bool {
	c := d.Config
	c.SkipVerify = true      // done below, unless NoICRC
	d.m.DecodeFrame(&d.f, c) // Kind tells as much as its error
	if d.m.Kind == message.Other && d.f.Tunnels().Len() > 0 {
		d.m.DecodeInner(&d.f, c)
		p.ingressOf(d.f.Outermost())
	}
	switch d.m.Kind {
	case message.Other:
		return false
	case message.PFC, message.Pause:
		p.kind = pfcKind
		p.pause = pauseOf(&d.m)
		p.pause.mac = d.sender()
		return true
	case message.Broken:
		return d.cut(p)
	case message.FCN:
		d.addressed(p, withoutQP)
		p.kind, p.label, p.ingress = fcnKind, d.m.FCN.FlowLabel, p.pkt.Flow.Dst
		return true
	case message.Proxy:
		d.addressed(p, withoutQP)
		p.kind, p.about = proxyKind, key{QP: withoutQP}
		if k, err := d.m.Proxy.FlowKey(); err == nil {
			p.about = keyOf(k)
		}
		return true
	}
	h := &d.m.Packet.BTH
	p.noHeaders = false
	d.transport(p, &h.Header)
	switch d.m.Kind {
	case message.UnknownOption: // most likely a Fast CNP of another option type: nobody knows about which flow
		p.kind, p.about = fastKind, key{QP: withoutQP}
		return true
	case message.FastCNP:
		p.kind, p.about = fastKind, keyOf(d.m.FastCNP.FlowKey())
		if d.m.FastCNP.Option.Number == 2 {
			p.queues(&d.m.FastCNP.Option.Trace)
		}
		return true
	case message.PPFC:
		p.kind = ppfcKind
		p.about = keyOf(rocev2.FlowKey{Src: d.m.Packet.Dst, Dst: d.m.PPFC.Congested, DestQP: h.DestQP})
		return true
	}
	d.headers(p, h)
	return p.kind != nothing
}

// addressed sets where the packet comes from and goes to.
func (d *Decoder) addressed(p *Packet, qp uint32) {
	u := &d.m.Packet.Datagram
	p.header(u.IP, qp)
	if len(u.Ext) > 0 { // it may go on elsewhere
		p.pkt.Flow = keyOf(rocev2.FlowKey{Src: u.Src, Dst: u.FinalDst()})
		p.pkt.Flow.QP |= qp
	}
}

// header sets what the first header of an IP packet says.
func (p *Packet) header(ip []byte, qp uint32) {
	if ip[0]>>4 == 6 {
		h := (*[40]byte)(ip)
		p.pkt.Flow.Src, p.pkt.Flow.Dst, p.pkt.Flow.QP = [16]byte(h[8:]), [16]byte(h[24:]), qp
		p.trafficClass, p.ident, p.ipOctets = h[0]<<4|h[1]>>4, 0, 40+uint32(be.Uint16(h[4:]))
		return
	}
	h := (*[20]byte)(ip)
	p.pkt.Flow.Src, p.pkt.Flow.Dst, p.pkt.Flow.QP = mapped, mapped, qp|overIPv4
	copy(p.pkt.Flow.Src[12:], h[12:16])
	copy(p.pkt.Flow.Dst[12:], h[16:20])
	p.trafficClass, p.ident, p.ipOctets = h[1], be.Uint16(h[4:]), uint32(be.Uint16(h[2:]))
}

// mapped is what an IPv4 address is written behind.
var mapped = [16]byte{10: 0xFF, 11: 0xFF}

// transport sets what IP headers and BTH say.
func (d *Decoder) transport(p *Packet, h *bth.Header) {
	u := &d.m.Packet.Datagram
	d.addressed(p, h.DestQP)
	p.kind, p.pkt.Opcode, p.pkt.PSN, p.pkt.AckReq = roles[h.Opcode].of, h.Opcode, h.PSN, h.AckReq
	p.pkt.PKey = h.PKey
	p.truncated, p.icrcWrong, p.pkt.SrcPort = u.Truncated, false, u.SrcPort
	p.vlan, p.pcp = 0, 0
	if id, priority, ok := d.f.VLAN(); ok {
		p.vlan, p.pcp = id, 1<<priority
	}
	d.addressesOf(p)
	payload := int(u.Length) - 8 - bth.Size - h.Opcode.HeaderLen() - int(h.Pad) - 4
	p.pkt.Payload = uint32(max(payload, 0))
	p.ingressOf(u.Outer)
}

// sender returns the MAC address that sent a frame. Cooked captures have no other.
func (d *Decoder) sender() (mac [6]byte) {
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

// addressesOf sets the MAC addresses of the frame.
func (d *Decoder) addressesOf(p *Packet) {
	if b := d.f.Octets(); d.f.Options().Link == rocev2.LinkEthernet && len(b) >= len(p.macs) {
		p.macs = [12]byte(b)
	} else {
		p.macs = [12]byte{}
	}
}

// ingressOf sets what the outermost header of a packet in a tunnel says, if that
// is IPv6: the tunnel's ingress and the flow label that it chose.
func (p *Packet) ingressOf(outer []byte) {
	if len(outer) >= 40 && outer[0]>>4 == 6 {
		p.tunnelled = true
		p.ingress, p.label = [16]byte(outer[8:24]), be.Uint32(outer)&0xFFFFF
	}
}

// headers sets what the extended headers of a request or an answer say.
func (d *Decoder) headers(p *Packet, h *bth.Headers) {
	p.pkt.Syndrome, p.pkt.DMA, p.pkt.SrcQP = h.AETH.Syndrome, 0, h.DETH.SrcQP
	if p.kind != request {
		return
	}
	if roles[h.Opcode].message == Read {
		p.pkt.DMA = h.RETH.DMALength
	}
	u := &d.m.Packet.Datagram
	if !p.truncated && !d.NoICRC {
		_, err := icrc.Verify(u.IP)
		p.icrcWrong = err != nil
	}
	if len(u.Ext) > 0 {
		if t, err := u.Trace(); err == nil {
			p.queues(&t)
		}
	}
	if h.Opcode == bth.UDSendOnly && h.DestQP == 1 {
		p.pkt.CM.Set(&d.m.Packet)
	}
}

// cut sets p from a packet that the capture cut behind its BTH, which is all
// that it needs to count.
func (d *Decoder) cut(p *Packet) bool {
	p.kind = broken
	u := &d.m.Packet.Datagram
	if d.m.Reach == message.ReachNothing || u.DstPort != rocev2.Port || !u.Truncated || len(u.Data) < bth.Size {
		return false
	}
	var h bth.Header
	h.Decode(u.Data) // cannot fail: 12 octets are there
	if int(u.Length) < 8+bth.Size+h.Opcode.HeaderLen()+4 {
		return false // it was broken before
	}
	p.noHeaders = true
	d.transport(p, &h)
	p.pkt.DMA, p.pkt.SrcQP, p.pkt.Syndrome = 0, 0, 0
	if h.Opcode == bth.CNP { // a PPFC, or it would not be broken: the address is missing
		p.kind, p.about = ppfcKind, key{QP: withoutQP}
	}
	return p.kind != nothing
}

// queues sets how deep the nodes in a trace say that their queues are.
func (p *Packet) queues(t *ioam.Trace) {
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
