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
	p.header(ip, be.Uint32(h[4:])&maxQP)
	p.pkt.PKey = be.Uint16(h[2:])
	p.kind, p.pkt.Opcode, p.pkt.PSN, p.pkt.AckReq = r.of, op, be.Uint32(h[8:])&bth.MaxPSN, h[8]>>7 != 0
	p.pkt.Payload, p.vlan, p.pcp, p.pkt.SrcPort = uint32(payload), 0, 0, be.Uint16(u)
	d.addressesOf(p)
	p.icrcWrong, p.truncated, p.noHeaders = false, false, false
	p.pkt.SrcQP, p.pkt.DMA, p.pkt.Syndrome = 0, 0, 0
	switch {
	case r.of == answer && op.Headers().Has(bth.HasAETH):
		p.pkt.Syndrome = bth.Syndrome(extended[0])
	case r.message == Read && r.of == request:
		p.pkt.DMA = be.Uint32(extended[op.HeaderLen()-4:]) // the RETH is the last, and ends with the length
	}
	if r.of == request && !d.NoICRC {
		_, err := icrc.Verify(ip)
		p.icrcWrong = err != nil
	}
	return true
}
