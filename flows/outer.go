package flows

import (
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/rocev2"
)

// Outer counts the requests and responses of a flow that came in tunnels, by their outermost IP header. The
// headers of a mirror around it do not count.
type Outer struct {
	Packets  uint64          // packets that came in tunnels
	ECN      [4]uint64       // packets by ECN field of that header
	DSCP     uint64          // bit n: DSCP n was seen
	Tunnels  []rocev2.Tunnel // kinds of tunnels
	CENotECT uint64          // packets with CE around a packet that is not ECN-capable, which RFC 6040 drops

	marked uint64 // packets with CE only in outer headers
	kinds  uint16 // bit n: rocev2.Tunnel n was seen
}

// outerHeader has the fields of the headers around a packet in tunnels.
type outerHeader struct {
	set          bool
	trafficClass uint8 // of the outermost header
	ce           bool  // an outer header has CE, and the packet is ECN-capable
	ceNotECT     bool  // an outer header has CE, and the packet is not ECN-capable
	kinds        uint16
}

// isMarked reports whether a packet came with CE: in its own header or, if it is ECN-capable, in one
// around it (RFC 6040).
func (p *Packet) isMarked() bool { return p.trafficClass&3 == 3 || p.outer.ce }

// effectiveClass returns the traffic class with the ECN field in effect.
func (p *Packet) effectiveClass() uint8 {
	if p.outer.ce {
		return p.trafficClass | 3
	}
	return p.trafficClass
}

// readOuter sets the fields of the headers around the innermost packet.
func (d *Decoder) readOuter(p *Packet) {
	outermost, ip := d.f.Outer().IP(), d.m.Packet.Datagram.IP
	if len(outermost) == 0 || len(ip) == 0 || &outermost[0] == &ip[0] {
		return
	}
	_, drop := d.f.DecapsulateECN()
	p.outer = outerHeader{
		set: true, trafficClass: wire.TrafficClass(outermost),
		ce: d.f.Marked(), ceNotECT: drop && rocev2.ECN(p.trafficClass&3) == rocev2.NotECT,
	}
	for tunnel := range d.f.OuterHeaders() {
		switch tunnel {
		case rocev2.ERSPAN1, rocev2.ERSPAN2, rocev2.ERSPAN3, rocev2.GRE8949: // mirrors
		default:
			p.outer.kinds |= 1 << tunnel
		}
	}
}

// countOuter counts the headers around a request or response.
func (t *Table) countOuter(f *flow, p *Packet) {
	o, h := t.outers.allocate(&f.outer), &p.outer
	o.Packets++
	o.ECN[h.trafficClass&3]++
	o.DSCP |= 1 << (h.trafficClass >> 2)
	o.kinds |= h.kinds
	if h.ceNotECT {
		o.CENotECT++
	}
	if h.ce && p.trafficClass&3 != 3 {
		o.marked++
	}
}

// reportOuter returns the counts of the headers around a flow's packets, or nil without tunnels.
func (t *Table) reportOuter(f *flow) *Outer {
	o := t.outers.lookUp(f.outer)
	if o == nil || o.Packets == 0 { // only second copies came in tunnels
		return nil
	}
	out := *o
	for tunnel := range rocev2.Tunnel(16) {
		if o.kinds&(1<<tunnel) != 0 {
			out.Tunnels = append(out.Tunnels, tunnel)
		}
	}
	return &out
}
