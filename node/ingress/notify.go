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

// A Decision says how a packet was forwarded, or what a CNP that was sent is about: of its Flow, Domain is the VPN that
// the CNP goes back into.
type Decision struct {
	node.Decision
	Label uint32 // the flow's, and the one of the outer header; 0 where it has none
}

// Receive takes what the PE gets from the WAN. To an FCN it appends the CNP for the sender of the flow that is named.
// Where none is due it says why: Disabled; Fragment or Broken, of what is not a whole message; NotOurs, of those for
// others; Tunnelled; Denied; Limited (by In or InPerSource); Broken, where the capture cut it; Checksum; Broken;
// UnknownLabel; Acknowledgement (the flow has no data packets); Address, OwnAddress, NoMethod, UnknownQP,
// AmbiguousQP, Limited (by PerFlow or Out), looked at in this order.
//
// From RoCEv2 in a tunnel that ends at Config.WAN it learns, as from the other direction of the flows, in the domain
// that the tunnel belongs to: the Action is node.Learned where that taught a queue pair. Where hardware opens the
// tunnels, show what comes out of them to QPs.
func (pe *PE) Receive(out []byte, f *rocev2.Frame, domain uint32, now time.Time) (sent []byte, d Decision) {
	out = pe.receive(out, f, domain, &d, now)
	pe.counters.Decided(&d.Decision)
	return out, d
}

func (pe *PE) receive(out []byte, f *rocev2.Frame, domain uint32, d *Decision, now time.Time) []byte {
	if !pe.intake.Message(&d.Decision, &pe.datagram, f, pe.cfg.Port, message.FCN, now) {
		pe.fromTunnel(f, domain, &d.Decision, now)
		return out
	}
	if d.Reason != node.Accepted {
		return out
	}
	var m fcn.Message
	if m.Decode(pe.datagram.Data) != nil {
		d.Reason = node.Broken
		return out
	}
	pe.Expire(now)
	i := pe.labelled(m.FlowLabel)
	if i == 0 {
		d.Reason = node.UnknownLabel
		return out
	}
	e := pe.table.At(i)
	if !e.data {
		d.Reason = node.Acknowledgement
		return out
	}
	d.Flow, d.Label, d.Level = public(pe.table.Key(i)), e.label, m.Level
	return pe.notify(out, d, e.pKey, now)
}

// labelled returns the slot of the flow that has a label, 0 when none has.
func (pe *PE) labelled(label uint32) uint32 {
	slot := pe.labels.slot(label)
	i := uint32(slot)
	if label == 0 || int64(i) != slot || !pe.table.Holds(i) || pe.table.At(i).label != label {
		return 0
	}
	return i
}

// fromTunnel learns from what comes in a tunnel that ends here.
func (pe *PE) fromTunnel(f *rocev2.Frame, domain uint32, d *node.Decision, now time.Time) {
	p := &pe.packet
	if !pe.cfg.Enabled || !pe.qps.Learns() || !f.Tunnelled() || f.Mirrored() || f.OuterDst() != pe.cfg.WAN ||
		f.InnerPacket(p) != nil {
		return
	}
	d.Packet = role.KindOf(p.BTH.Opcode)
	pe.qps.Learn(d, p, domain, p.Dst, now) // of the two pairs that of the flow which this packet answers
}

// Congested says that the PE itself is congested by a packet that is to enter the WAN, and appends to out the CNP for
// its sender (FCN section 4.1). Where none is due it says why: Disabled; Broken, or NotOurs for other traffic;
// Tunnelled; Acknowledgement; Notification; NotCapable (the packet is not ECN-capable); or one of those of Receive
// from Address on.
func (pe *PE) Congested(out []byte, f *rocev2.Frame, domain uint32, now time.Time) (sent []byte, d Decision) {
	out = pe.congested(out, f, domain, &d, now)
	pe.counters.Decided(&d.Decision)
	return out, d
}

func (pe *PE) congested(out []byte, f *rocev2.Frame, domain uint32, d *Decision, now time.Time) []byte {
	p := &pe.packet
	var reason node.Reason
	d.Packet, reason = role.Decode(p, f)
	switch {
	case !pe.cfg.Enabled:
		d.Reason = node.Disabled
	case reason != node.Accepted:
		d.Reason = reason
	case len(p.Outer) > 0:
		d.Reason = node.Tunnelled
	default:
		d.Reason = role.Unanswered(d.Packet)
	}
	if d.Reason == node.Accepted && p.ECN() == rocev2.NotECT {
		d.Reason = node.NotCapable
	}
	if d.Reason != node.Accepted {
		return out
	}
	pe.Expire(now)
	d.Flow.FlowKey, d.Flow.Domain = p.FlowKey(), domain
	k := keyOf(d.Flow)
	if e, _ := pe.table.Find(&k, k.Hash(pe.table.Seed)); e != nil {
		d.Label = e.label
	}
	return pe.notify(out, d, p.BTH.PKey, now)
}

// notify appends the CNP for the sender of d.Flow, whose packets have this P_Key, or sets the reason why there is none.
func (pe *PE) notify(out []byte, d *Decision, pKey uint16, now time.Time) []byte {
	sender := d.Flow.Src
	src := pe.self.Like(sender)
	switch {
	case rocev2.Answerable(sender) != nil:
		d.Reason = node.Address
	case pe.self.Has(sender), sender == pe.cfg.WAN:
		d.Reason = node.OwnAddress
	case !src.IsValid():
		d.Reason = node.NoMethod
	default:
		pe.qps.Find(&d.Decision, now)
	}
	hash := d.Flow.Hash(pe.memory.Seed())
	if d.Reason == node.Accepted && !pe.pace.Ready(hash, pe.cfg.PerFlow, now) {
		d.Reason = node.Limited
	}
	if d.Reason != node.Accepted {
		return out
	}
	c := cnp.New(d.SrcQP, pKey)
	sent, err := c.AppendPacket(out, src, sender, pe.cfg.Carriage)
	if err != nil {
		d.Reason = node.UnknownQP // over 24 bits: all else was looked at before
		return out
	}
	pe.pace.Take(hash, now)
	d.Action, d.Kind, d.To = node.Sent, message.CNP, sender
	return sent
}
