package ingress

import (
	"time"

	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/rocev2"
)

// Forward appends to out an IP packet that enters the WAN, unchanged in the outer header of a tunnel, with the label of
// its flow. It also learns from the packet. domain is the VPN that the packet came from. With via nil, if hardware
// encapsulates, nothing is appended, and the Decision has the label.
//
// For RoCEv2 the Action is node.Forwarded; a flow without a label gets one. If a packet is forwarded with label 0 all
// the same, this is the reason: TableFull (there is no room for another flow, or no free label); Broken (the packet
// cannot be decoded); Tunnelled (it came inside another IP header, so its source may be out of reach, D17). Other
// traffic is appended with label 0, and the Action is node.Nothing.
//
// Not appended are packets to the PE itself; packets that a capture has cut, whose flows get labels all the same; and
// packets that are too long for the tunnel or end in their IP header, of which RoCEv2 is Refused as Broken. A PE that
// is off forwards nothing: RoCEv2 is Refused as Disabled; nor does one with LearnLabels: RoCEv2 is Refused as
// NotTunnelled.
func (pe *PE) Forward(
	out []byte, f *rocev2.Frame, domain uint32, via encap.Tunnel, now time.Time,
) (sent []byte, d Decision) {
	sent, d.Reason = pe.forward(out, f, domain, via, &d, pe.latest.Or(now))
	pe.counters.Settle(&d.Decision)
	return sent, d
}

func (pe *PE) forward(
	out []byte, f *rocev2.Frame, domain uint32, via encap.Tunnel, d *Decision, now time.Time,
) ([]byte, node.Reason) {
	p, ip := &pe.packet, f.Outermost()
	var reason node.Reason
	d.Packet, reason = role.Decode(p, f)
	roce, cut := reason != node.NotOurs, f.Options().Cut
	if !cut && f.Truncated() {
		ip = nil // not all there
	}
	switch dst := f.OuterDst(); {
	case ip != nil && (pe.self.Has(dst) || dst == pe.cfg.WAN),
		!roce && (ip == nil || !pe.cfg.Enabled || pe.cfg.LearnLabels):
		return out, node.NoReason
	case !pe.cfg.Enabled:
		return out, node.Disabled
	case pe.cfg.LearnLabels:
		return out, node.NotTunnelled
	case ip == nil:
		return out, node.Broken
	}
	if cut {
		if roce && reason == node.Broken && f.DatagramCut(&p.Datagram, rocev2.Port) == nil {
			if _, err := p.BTH.Header.Decode(p.Data); err == nil {
				reason = node.NoReason // headers are missing, but not those that name the flow
			}
		}
		via = nil
	}
	switch {
	case reason == node.NoReason:
		reason = pe.label(p, domain, d, now)
	case roce && cut:
		return out, node.Broken
	case roce:
		d.Action = node.Forwarded
	default:
		reason = node.NoReason
	}
	if via == nil {
		return out, reason
	}
	sent, err := via.Append(out, ip, d.Label)
	switch {
	case err != nil && roce:
		*d = Decision{Decision: node.Decision{Packet: d.Packet}}
		return out, node.Broken
	case err != nil:
		return out, node.NoReason
	case d.Label == 0:
		pe.counters.Inc(node.Count{Effect: node.Unlabelled})
	}
	return sent, reason
}

// label finds the label of the flow of a packet, or returns why it has none, and learns from the packet.
func (pe *PE) label(p *rocev2.Packet, domain uint32, d *Decision, now time.Time) node.Reason {
	d.Action = node.Forwarded
	if len(p.Outer) > 0 {
		return node.Tunnelled
	}
	d.Flow.FlowKey, d.Flow.Domain = p.FlowKey(), domain
	pe.qps.Learn(new(node.Decision), p, domain, p.Dst, now)
	t := pe.clock.At(now)
	pe.release(t)
	k := flowtable.KeyOf(d.Flow.Src, d.Flow.Dst, d.Flow.DestQP, domain)
	hash := k.Hash(pe.table.Seed)
	e, i := pe.table.Find(&k, hash)
	if e != nil {
		pe.table.Renew(i, 0)
	} else {
		if i = pe.table.Add(&k, hash, 0); i == 0 {
			return node.TableFull
		}
		label, ok := pe.labels.take(i, t)
		if !ok {
			pe.table.Remove(i)
			return node.TableFull
		}
		e = pe.table.At(i)
		e.label = label
		pe.counters.Inc(node.Count{Effect: node.Opened})
	}
	e.seen, e.pKey = t, p.BTH.PKey
	e.data = e.data || d.Packet == message.Data
	d.Label = e.label
	if p.ECN() == rocev2.NotECT {
		pe.counters.Inc(node.Count{Effect: node.NotECNCapable})
	}
	return node.NoReason
}
