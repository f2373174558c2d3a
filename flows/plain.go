package flows

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/rocev2"
)

// plain is Decode for the packets that most are: RC, UC and XRC in a plain frame, as Frame.Plain has it,
// with nothing wrong. It does the same in a third of the time, which a fuzz target holds it to. False
// leaves the frame to the general way.
func (d *Decoder) plain(p *Packet) bool {
	const udpSize, icrcSize = 8, 4
	ip, u := d.f.Plain()
	if len(u) < udpSize+bth.Size+icrcSize {
		return false
	}
	length := int(be.Uint16(u[4:]))
	op := bth.Opcode(u[udpSize])
	r := &roles[op]
	t := op.Transport()
	if be.Uint16(u[2:]) != rocev2.Port || length > len(u) || r.of != request && r.of != answer ||
		t == bth.TransportUD || t == bth.TransportRD {
		return false
	}
	payload := length - udpSize - bth.Size - op.HeaderLen() - int(u[udpSize+1]>>4&3) - icrcSize
	if payload < 0 {
		return false
	}
	h, extended := u[udpSize:udpSize+bth.Size], u[udpSize+bth.Size:]
	qp := be.Uint32(h[4:]) & maxQP
	if ip[0]>>4 == 6 {
		h := (*[40]byte)(ip)
		p.pkt.Src, p.pkt.Dst, p.pkt.QP = [16]byte(h[8:]), [16]byte(h[24:]), qp
		p.trafficClass, p.ident = h[0]<<4|h[1]>>4, 0
	} else {
		h := (*[20]byte)(ip)
		p.pkt.Src, p.pkt.Dst, p.pkt.QP = mapped, mapped, qp|overIPv4
		copy(p.pkt.Src[12:], h[12:16])
		copy(p.pkt.Dst[12:], h[16:20])
		p.trafficClass, p.ident = h[1], be.Uint16(h[4:])
	}
	p.kind, p.opcode, p.psn, p.ackReq = r.of, op, be.Uint32(h[8:])&bth.MaxPSN, h[8]>>7 != 0
	p.ipOctets, p.payload, p.vlan = uint32(len(ip)), uint32(payload), 0
	p.srcPort = be.Uint16(u)
	p.icrcWrong, p.truncated, p.noHeaders = false, false, false
	p.srcQP, p.asked, p.syndrome = 0, 0, 0
	switch {
	case r.of == answer && op.Headers().Has(bth.HasAETH):
		p.syndrome = bth.Syndrome(extended[0])
	case r.message == Read && r.of == request:
		p.asked = be.Uint32(extended[op.HeaderLen()-4:]) // the RETH is the last, and ends with the length
	}
	if r.of == request && !d.NoICRC {
		_, err := icrc.Verify(ip)
		p.icrcWrong = err != nil
	}
	return true
}
