package ingress

import (
	"time"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/rocev2"
)

// forwardPacket forwards an IP packet that enters the WAN, and learns from it. reason is the result of decoding
// pe.packet.
func (pe *Role) forwardPacket(
	out []byte, f *rocev2.Frame, e *node.Event, d *node.Decision, reason node.Reason,
) ([]byte, node.Reason) {
	p, v := &pe.packet, f.Outer()
	ip, dst := v.IP(), v.Dst()
	if mirror := f.Mirror(); mirror != nil { // the mirror's packet is forwarded, with the copy in it
		ip = mirror
		_, dst = wire.Addresses(mirror)
	}
	roce, cut := reason != node.ReasonNotOurs, f.Options().AllowTruncated || f.Truncated()
	switch {
	case ip != nil && (pe.self.Has(dst) || dst == pe.cfg.WAN), !roce && (ip == nil || !pe.cfg.Enabled):
		return out, node.NoReason
	case !pe.cfg.Enabled:
		return out, node.ReasonDisabled
	case ip == nil:
		return out, node.ReasonBroken
	}
	if v.AllowTruncated = true; cut {
		if roce && reason == node.ReasonBroken && v.Datagram(&p.Datagram, rocev2.Port) == nil {
			if _, err := p.BTH.Header.Decode(p.Data); err == nil {
				reason = node.NoReason // headers are missing, but not those that name the flow
			}
		}
	}
	switch {
	case reason == node.NoReason:
		reason = pe.assignLabel(p, e.Domain, d, e.Now)
	case roce && cut:
		return out, reason
	case roce:
		d.Action = node.ActionForwarded
	default:
		reason = node.NoReason
	}
	if pe.cfg.Tunnel == nil || cut {
		return out, reason
	}
	sent, err := pe.cfg.Tunnel.Append(out, ip, d.Label)
	switch {
	case err != nil && roce:
		*d = node.Decision{Packet: d.Packet}
		return out, node.ReasonBroken
	case err != nil:
		return out, node.NoReason
	case d.Label == 0:
		pe.counters.Inc(node.Count{Effect: node.EffectUnlabelled})
	}
	return sent, reason
}

// assignLabel finds the label of the flow of a packet, or returns why it has none, and learns from the packet.
func (pe *Role) assignLabel(p *rocev2.Packet, domain uint32, d *node.Decision, now time.Time) node.Reason {
	d.Action = node.ActionForwarded
	if len(p.Outer) > 0 {
		return node.ReasonTunnelled
	}
	d.Flow.FlowKey, d.Flow.Domain = role.PacketKey(p), domain
	pe.qps.Learn(new(node.Decision), p, domain, p.Dst, now)
	t := pe.clock.Ticks(now)
	pe.releaseLabels(t)
	k := role.TableKey(&d.Flow)
	hash := k.Hash(pe.table.Seed)
	e, i := pe.table.Find(&k, hash)
	if e != nil {
		pe.table.Renew(i, 0)
	} else {
		if pe.table.Full() {
			pe.evictFlow(&k, hash, t)
		}
		if i = pe.table.Add(&k, hash, 0); i == 0 {
			return node.ReasonTableFull
		}
		label, ok := pe.labels.allocateFree(i, t)
		if !ok {
			pe.table.Remove(i)
			return node.ReasonTableFull
		}
		e = pe.table.Value(i)
		e.label = label
		pe.shares.Add(&k, pe.memory.Seed())
		pe.counters.Inc(node.Count{Effect: node.EffectOpened})
	}
	e.seen, e.pKey = t, p.BTH.PKey
	e.data = e.data || d.Packet == message.KindData
	d.Label = e.label
	if p.ECN() == rocev2.NotECT {
		pe.counters.Inc(node.Count{Effect: node.EffectNotECNCapable})
	}
	return node.NoReason
}
