package ingress

import (
	"time"

	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/rocev2"
)

// Forward appends to out the outer packet in which an IP packet goes through the WAN: with the label of its flow, and
// the packet unchanged inside. It also learns from it. domain is the VPN that the packet came from, 0 without. Where
// via is nil, as hardware encapsulates, nothing is appended, and the label is what it says.
//
// The Action is node.Forwarded for RoCEv2, whose flow gets a label now if it has none. With label 0 comes the reason:
// TableFull, where there is no room for another flow, or no label, as only flows that have been silent for Idle leave
// the table; Broken, of a packet that does not parse; Tunnelled, of one inside another IP header, whose source may be
// out of reach (D17). Other traffic is appended with label 0, has node.Nothing, and leaves no trace.
//
// What the capture cut gets its label, too, but is not appended, as it is not all there. Neither is what is addressed
// to the PE itself, nor what is too long for the tunnel: of RoCEv2 that is Refused as Broken, as is what breaks off
// in its IP header. A PE that is off forwards nothing: RoCEv2 is Refused as Disabled.
func (pe *PE) Forward(
	out []byte, f *rocev2.Frame, domain uint32, via encap.Tunnel, now time.Time,
) (sent []byte, d Decision) {
	out = pe.forward(out, f, domain, via, &d, now)
	pe.counters.Decided(&d.Decision)
	return out, d
}

func (pe *PE) forward(
	out []byte, f *rocev2.Frame, domain uint32, via encap.Tunnel, d *Decision, now time.Time,
) []byte {
	p, ip := &pe.packet, f.Outermost()
	var reason node.Reason
	d.Packet, reason = role.Decode(p, f)
	roce, cut := reason != node.NotOurs, f.Options.Cut
	if !cut && f.Cut() {
		ip = nil // it breaks off
	}
	switch dst := f.OuterDst(); {
	case ip != nil && (pe.self.Has(dst) || dst == pe.cfg.WAN), !roce && (ip == nil || !pe.cfg.Enabled):
		return out
	case !pe.cfg.Enabled:
		d.Reason = node.Disabled
		return out
	case ip == nil:
		d.Reason = node.Broken
		return out
	}
	if cut {
		if roce && reason == node.Broken && f.DatagramCut(&p.Datagram, rocev2.Port) == nil {
			if _, err := p.BTH.Header.Decode(p.Data); err == nil {
				reason = node.Accepted // its headers are not all there, but the flow shows
			}
		}
		via = nil
	}
	switch {
	case reason == node.Accepted:
		pe.label(p, domain, d, now)
	case roce && cut:
		d.Reason = node.Broken
		return out
	case roce:
		d.Action, d.Reason = node.Forwarded, node.Broken
	}
	if via == nil {
		return out
	}
	sent, err := via.Append(out, ip, d.Label)
	switch {
	case err != nil && roce:
		*d = Decision{Decision: node.Decision{Packet: d.Packet, Reason: node.Broken}}
		return out
	case err != nil:
		return out
	case d.Label == 0:
		pe.counters.Inc(node.Count{Action: node.Unlabelled})
	}
	return sent
}

// label finds the label of the flow of a packet, and learns from the packet.
func (pe *PE) label(p *rocev2.Packet, domain uint32, d *Decision, now time.Time) {
	d.Action = node.Forwarded
	if len(p.Outer) > 0 {
		d.Reason = node.Tunnelled
		return
	}
	d.Flow.FlowKey, d.Flow.Domain = p.FlowKey(), domain
	pe.qps.Learn(new(node.Decision), p, domain, p.Dst, now)
	t := pe.clock.At(now)
	pe.release(t)
	k := keyOf(d.Flow)
	hash := k.Hash(pe.table.Seed)
	e, i := pe.table.Find(&k, hash)
	if e != nil {
		pe.table.Renew(i, 0)
	} else {
		if i = pe.table.Add(&k, hash, 0); i == 0 {
			d.Reason = node.TableFull
			return
		}
		label, ok := pe.labels.take(i, t)
		if !ok {
			pe.table.Remove(i)
			d.Reason = node.TableFull
			return
		}
		e = pe.table.At(i)
		e.label = label
		pe.counters.Inc(node.Count{Action: node.Opened})
	}
	e.seen, e.pKey = t, p.BTH.PKey
	e.data = e.data || d.Packet == message.Data
	d.Label = e.label
	if p.ECN() == rocev2.NotECT {
		pe.counters.Inc(node.Count{Action: node.NotECNCapable})
	}
}
