package ingress

import (
	"time"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/rocev2"
)

// A Decision is about a packet that was forwarded, or a CNP that was sent. Flow.Domain is the VPN into which the CNP is
// to be sent.
type Decision struct {
	node.Decision
	Label uint32 // of the flow, and of the outer header; 0 if the flow has none
}

// Receive decides about a packet from the WAN. To an FCN it appends the CNP for the sender of the flow whose label it
// names. If there is none, the first of these reasons is given: Disabled; Fragment or Broken (the message is not
// whole); NotOurs (to another node); Tunnelled; Denied; Limited (InPerSource or In); Broken (a capture has cut the
// message); Checksum; Broken; UnknownLabel; AmbiguousLabel; Acknowledgement (the flow has no data packets); Address;
// OwnAddress; NoMethod; UnknownQP; AmbiguousQP; Limited (PerFlow or Out).
//
// RoCEv2 in a tunnel that ends at Config.WAN is the other direction of the flows: it teaches queue pairs, in the domain
// that the tunnel belongs to. If it did, the Action is node.Learned. If hardware opens the tunnels, show the packets in
// them to QPs.
func (pe *PE) Receive(out []byte, f *rocev2.Frame, domain uint32, now time.Time) (sent []byte, d Decision) {
	sent, now = out, pe.latest.Or(now)
	if !pe.intake.Message(&d.Decision, &pe.datagram, f, pe.cfg.Port, message.FCN, now) {
		pe.fromTunnel(f, domain, &d.Decision, now)
	} else if d.Reason == node.NoReason {
		sent, d.Reason = pe.answer(out, &d, now)
	}
	pe.counters.Settle(&d.Decision)
	return sent, d
}

// answer answers an FCN that was admitted, pe.datagram, or returns why not.
func (pe *PE) answer(out []byte, d *Decision, now time.Time) ([]byte, node.Reason) {
	var m fcn.Message
	if m.Decode(pe.datagram.Data) != nil {
		return out, node.Broken
	}
	pe.Expire(now)
	if pe.cfg.LearnLabels {
		pKey := pe.taught(d, m.FlowLabel)
		if d.Reason != node.NoReason {
			return out, d.Reason
		}
		d.Level = m.Level
		return pe.notify(out, d, pKey, now)
	}
	i := pe.labelled(m.FlowLabel)
	if i == 0 {
		return out, node.UnknownLabel
	}
	e := pe.table.At(i)
	if !e.data {
		return out, node.Acknowledgement
	}
	d.Flow, d.Label, d.Level = role.FlowOf(pe.table.Key(i)), e.label, m.Level
	return pe.notify(out, d, e.pKey, now)
}

// labelled returns the slot of the flow that has a label, 0 if none has.
func (pe *PE) labelled(label uint32) uint32 {
	slot := pe.labels.slot(label)
	i := uint32(slot)
	if label == 0 || int64(i) != slot || !pe.table.Holds(i) || pe.table.At(i).label != label {
		return 0
	}
	return i
}

// fromTunnel learns from a packet in a tunnel that ends here.
func (pe *PE) fromTunnel(f *rocev2.Frame, domain uint32, d *node.Decision, now time.Time) {
	p := &pe.packet
	if !pe.cfg.Enabled || !pe.qps.Learns() || !f.Tunnelled() || f.Mirrored() || f.OuterDst() != pe.cfg.WAN ||
		f.InnerPacket(p) != nil {
		return
	}
	d.Packet = role.KindOf(p.BTH.Opcode)
	pe.qps.Learn(d, p, domain, p.Dst, now) // of the two pairs that of the flow which this packet answers
}

// Congested is to be called if the PE itself is congested by a packet that is to enter the WAN: it appends to out the
// CNP for the packet's sender (FCN section 4.1). If there is none, the first of these reasons is given: Disabled;
// Broken; NotOurs (other traffic); Tunnelled; Acknowledgement; Notification; NotCapable (the packet is not
// ECN-capable); then as for Receive, from Address on.
func (pe *PE) Congested(out []byte, f *rocev2.Frame, domain uint32, now time.Time) (sent []byte, d Decision) {
	sent, d.Reason = pe.congested(out, f, domain, &d, pe.latest.Or(now))
	pe.counters.Settle(&d.Decision)
	return sent, d
}

func (pe *PE) congested(
	out []byte, f *rocev2.Frame, domain uint32, d *Decision, now time.Time,
) (sent []byte, reason node.Reason) {
	p := &pe.packet
	d.Packet, reason = role.Decode(p, f)
	switch {
	case !pe.cfg.Enabled:
		return out, node.Disabled
	case reason != node.NoReason:
		return out, reason
	case len(p.Outer) > 0:
		return out, node.Tunnelled
	case role.Unanswered(d.Packet) != node.NoReason:
		return out, role.Unanswered(d.Packet)
	case p.ECN() == rocev2.NotECT:
		return out, node.NotCapable
	}
	pe.Expire(now)
	d.Flow.FlowKey, d.Flow.Domain = p.FlowKey(), domain
	k := role.TableKey(&d.Flow)
	if e, _ := pe.table.Find(&k, k.Hash(pe.table.Seed)); e != nil {
		d.Label = e.label
	}
	return pe.notify(out, d, p.BTH.PKey, now)
}

// notify appends the CNP for the sender of d.Flow, whose packets have this P_Key, or returns why there is none.
func (pe *PE) notify(out []byte, d *Decision, pKey uint16, now time.Time) ([]byte, node.Reason) {
	sender := d.Flow.Src
	src := pe.self.Like(sender)
	switch {
	case rocev2.CheckAnswerable(sender) != nil:
		return out, node.Address
	case pe.self.Has(sender), sender == pe.cfg.WAN:
		return out, node.OwnAddress
	case !src.IsValid():
		return out, node.NoMethod
	}
	if pe.qps.Find(&d.Decision, now); d.Reason != node.NoReason {
		return out, d.Reason
	}
	hash := role.Hash(&d.Flow, pe.memory.Seed())
	if !pe.pace.Ready(hash, pe.cfg.PerFlow, now) {
		return out, node.Limited
	}
	c := cnp.New(d.SrcQP, pKey)
	sent, err := c.AppendPacket(out, src, sender, cnp.Config{Carriage: pe.cfg.Carriage})
	if err != nil {
		return out, node.UnknownQP // over 24 bits: everything else was checked before
	}
	pe.pace.Take(hash, now)
	d.Action, d.Message, d.To = node.Sent, message.CNP, sender
	return sent, node.NoReason
}
