package ingress

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A Notice says what a CNP that was sent is about.
type Notice struct {
	Flow   rocev2.FlowKey
	Domain uint32 // the VPN that the CNP goes back into
	Label  uint32 // the flow's; 0 where it has none
	SrcQP  uint32 // the sender's queue pair, the CNP's DestQP
	Level  uint8  // of the congestion, as the FCN has it; 0 where it does not say
}

// ReceivePacket is Receive for a UDP datagram out of a capture or a raw socket:
// it also checks what a UDP socket of the PE does, that the datagram is addressed
// to the PE itself (node.NotOurs), not in a tunnel (node.Tunnelled), and, once list
// and limits have passed it, that it is whole (node.Broken) and its checksum right
// (node.Checksum). Whether its port is that of FCN the caller knows.
func (pe *PE) ReceivePacket(out []byte, d *rocev2.Datagram, now time.Time) ([]byte, Notice, node.Reason) {
	var reason node.Reason
	switch {
	case !pe.cfg.Enabled:
		reason = node.Disabled
	case d.Dst != pe.cfg.Self:
		reason = node.NotOurs
	case len(d.Outer) > 0:
		reason = node.Tunnelled
	default:
		reason = pe.admit(d.Src, now)
	}
	switch {
	case reason != node.Accepted:
	case d.Truncated:
		reason = node.Broken
	case d.VerifyChecksum() != nil:
		reason = node.Checksum
	}
	if reason != node.Accepted {
		return out, Notice{}, pe.refuse(reason)
	}
	return pe.receive(out, d.Data, now)
}

// Receive takes the data of an FCN, the UDP payload, which came from a node of
// the WAN, and appends to out the CNP for the sender of the flow that it names.
// Where none is due it says why: Disabled, Denied, Limited (by In or InPerSource),
// Broken, UnknownLabel, Acknowledgement (the flow has no data packets), Address,
// OwnAddress, NoMethod, UnknownQP, AmbiguousQP, Limited (by PerFlow or Total),
// looked at in this order.
func (pe *PE) Receive(out []byte, from netip.Addr, data []byte, now time.Time) ([]byte, Notice, node.Reason) {
	reason := node.Disabled
	if pe.cfg.Enabled {
		reason = pe.admit(from.Unmap(), now)
	}
	if reason != node.Accepted {
		return out, Notice{}, pe.refuse(reason)
	}
	return pe.receive(out, data, now)
}

// admit says whether an FCN from a node is to be looked at. It costs little, for
// anybody can send them.
func (pe *PE) admit(from netip.Addr, now time.Time) node.Reason {
	if !pe.cfg.Accept.Contains(from) {
		return node.Denied
	}
	source := rocev2.FlowKey{Src: from}.Hash(pe.hash)
	if !pe.from.Ready(source, now) || !pe.in.Ready(now) {
		return node.Limited
	}
	pe.from.Take(source, now)
	pe.in.Take(now)
	return node.Accepted
}

// receive is Receive for an FCN that is to be looked at.
func (pe *PE) receive(out, data []byte, now time.Time) ([]byte, Notice, node.Reason) {
	var m fcn.Message
	if m.UnmarshalBinary(data) != nil {
		return out, Notice{}, pe.refuse(node.Broken)
	}
	pe.Expire(now)
	i := pe.labelled(m.FlowLabel)
	if i == 0 {
		return out, Notice{}, pe.refuse(node.UnknownLabel)
	}
	k, e := pe.table.Key(i), pe.table.At(i)
	if !e.data {
		return out, Notice{}, pe.refuse(node.Acknowledgement)
	}
	n := Notice{Flow: flowKey(k), Domain: k.Domain, Label: e.label, Level: m.Level}
	return pe.notify(out, n, e.pKey, now)
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

// Congested says that the PE itself is congested by a packet that is to enter
// the WAN, and appends to out the CNP for its sender (FCN section 4.1). Where
// none is due it says why: Tunnelled, Acknowledgement, Notification,
// NotCapable (the packet is not ECN-capable), or one of those of Receive from
// Address on.
func (pe *PE) Congested(out []byte, p *rocev2.Packet, domain uint32, now time.Time) ([]byte, Notice, node.Reason) {
	if !pe.cfg.Enabled {
		return out, Notice{}, pe.refuse(node.Disabled)
	}
	if len(p.Outer) > 0 {
		return out, Notice{}, pe.refuse(node.Tunnelled)
	}
	if r := answerable(p); r != node.Accepted {
		return out, Notice{}, pe.refuse(r)
	}
	if p.ECN() == rocev2.NotECT {
		return out, Notice{}, pe.refuse(node.NotCapable)
	}
	pe.Expire(now)
	n := Notice{Flow: p.FlowKey(), Domain: domain}
	k := keyOf(&n.Flow, domain)
	if e, _ := pe.table.Find(&k, k.Hash(pe.table.Seed)); e != nil {
		n.Label = e.label
	}
	return pe.notify(out, n, p.BTH.PKey, now)
}

// notify appends the CNP for the sender of a flow whose packets have this P_Key,
// or says why there is none.
func (pe *PE) notify(out []byte, n Notice, pKey uint16, now time.Time) ([]byte, Notice, node.Reason) {
	sender := n.Flow.Src
	src := pe.cfg.CNP6
	if sender.Is4() {
		src = pe.cfg.CNP4
	}
	switch {
	case rocev2.Answerable(sender) != nil:
		return out, Notice{}, pe.refuse(node.Address)
	case sender == pe.cfg.CNP4, sender == pe.cfg.CNP6, sender == pe.cfg.Self:
		return out, Notice{}, pe.refuse(node.OwnAddress)
	case !src.IsValid():
		return out, Notice{}, pe.refuse(node.NoMethod)
	}
	pair, reason := pe.senderQP(n.Flow, n.Domain, now)
	if reason != node.Accepted {
		return out, Notice{}, pe.refuse(reason)
	}
	k := keyOf(&n.Flow, n.Domain)
	hash := k.Hash(pe.hash)
	if !pe.flows.Ready(hash, pe.cfg.PerFlow, now) || !pe.total.Ready(now) {
		return out, Notice{}, pe.refuse(node.Limited)
	}
	c := cnp.New(pair.SrcQP, pKey)
	out, err := c.AppendPacket(out, src, sender, pe.cfg.Carriage)
	if err != nil {
		return out, Notice{}, pe.refuse(node.UnknownQP) // over 24 bits: all else was looked at before
	}
	pe.flows.Take(hash, now)
	pe.total.Take(now)
	pe.stats.Sent++
	n.SrcQP = pair.SrcQP
	return out, n, node.Accepted
}

// senderQP returns the pair whose SrcQP is the queue pair of a flow's sender.
func (pe *PE) senderQP(k rocev2.FlowKey, domain uint32, now time.Time) (qpmap.Pair, node.Reason) {
	if pe.cfg.QPs == nil {
		return qpmap.Pair{}, node.UnknownQP
	}
	return node.SourceQP(pe.cfg.QPs, qpmap.Key{FlowKey: k, Domain: domain}, now)
}
