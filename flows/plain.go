package flows

import (
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/rocev2"
)

// plain is Decode for the frames that most are: RC, UC and XRC over Ethernet
// without tags, IPv4 without options or IPv6 without extension headers, nothing
// cut and nothing wrong. It does the same in a third of the time, which a fuzz
// target holds it to. False leaves the frame to the general way.
func (d *Decoder) plain(p *Packet, b []byte, o rocev2.DecodeOptions) bool {
	const ip, udpSize, icrcSize = 14, 8, 4
	if o.Link != rocev2.LinkEthernet || o.Cut || len(b) < ip+20+udpSize+bth.Size+icrcSize {
		return false
	}
	var udp, end int
	switch be.Uint16(b[12:]) {
	case 0x0800:
		udp, end = ip+20, ip+int(be.Uint16(b[ip+2:]))
		if b[ip] != 0x45 || b[ip+9] != 17 || be.Uint16(b[ip+6:])&0x3FFF != 0 {
			return false
		}
		p.trafficClass, p.ident = b[ip+1], be.Uint16(b[ip+4:])
	case 0x86DD:
		udp, end = ip+40, ip+40+int(be.Uint16(b[ip+4:]))
		if b[ip]>>4 != 6 || b[ip+6] != 17 {
			return false
		}
		p.trafficClass, p.ident = b[ip]<<4|b[ip+1]>>4, 0
	default:
		return false
	}
	if end > len(b) || end < udp+udpSize+bth.Size+icrcSize {
		return false
	}
	u := b[udp:end]
	length := int(be.Uint16(u[4:]))
	op := bth.Opcode(u[udpSize])
	r := &roles[op]
	t := op.Transport()
	if be.Uint16(u[2:]) != rocev2.Port || length > len(u) || r.of != request && r.of != answer || t == bth.TransportUD || t == bth.TransportRD {
		return false
	}
	payload := length - udpSize - bth.Size - op.HeaderLen() - int(u[udpSize+1]>>4&3) - icrcSize
	if payload < 0 {
		return false
	}
	h, extended := u[udpSize:udpSize+bth.Size], u[udpSize+bth.Size:]
	qp := be.Uint32(h[4:]) & maxQP
	if udp == ip+40 {
		p.pkt.Src, p.pkt.Dst, p.pkt.QP = [16]byte(b[ip+8:]), [16]byte(b[ip+24:]), qp
	} else {
		p.pkt.Src, p.pkt.Dst, p.pkt.QP = mapped, mapped, qp|overIPv4
		copy(p.pkt.Src[12:], b[ip+12:ip+16])
		copy(p.pkt.Dst[12:], b[ip+16:ip+20])
	}
	p.kind, p.opcode, p.psn, p.ackReq = r.of, op, be.Uint32(h[8:])&psnMask, h[8]>>7 != 0
	p.ipOctets, p.payload, p.vlan = uint32(end-ip), uint32(payload), 0
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
		_, err := icrc.Verify(b[ip:end])
		p.icrcWrong = err != nil
	}
	return true
}
